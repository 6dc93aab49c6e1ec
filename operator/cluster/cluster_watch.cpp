#include "operator/cluster/cluster_watch.hpp"

#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "kube/protobuf.hpp"

namespace compilecache::controller {

kube::ReflectorOptions labelled_pods(const char* label) {
  return {.resource = kube::resources::kPods,
          .label_selector = label,
          .fields = pod_fields(),
          .protobuf = &kube::protobuf::kPod};
}

ClusterWatch::ClusterWatch(const kube::Client& client, const api::NodeLabels& labels,
                           ClusterStores& stores, const Clock& clock)
    : stores_(stores),
      pods_(client, labelled_pods(api::kCacheLabel), parse_pod, stores.pods, clock),
      nodes_(
          client,
          {.resource = kube::resources::kNodes,
           .fields = node_fields(labels),
           .metadata_only = true},
          [labels](const nlohmann::json& node) { return parse_node(node, labels); }, stores.nodes,
          clock),
      archives_(client,
                {.resource = resources::kCompileCacheArchives, .fields = own_object_fields()},
                api::parse_archive, stores.archives, clock) {}

void ClusterWatch::start() {
  pods_.start();
  nodes_.start();
  archives_.start();
}

void ClusterWatch::stop() {
  pods_.stop();
  nodes_.stop();
  archives_.stop();
}

bool ClusterWatch::has_synced() const {
  return stores_.pods.has_synced() && stores_.nodes.has_synced() && stores_.archives.has_synced();
}

}  // namespace compilecache::controller
