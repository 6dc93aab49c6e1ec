#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "api/archive_key.hpp"
#include "base/clock.hpp"
#include "kube/client.hpp"
#include "kube/reflector.hpp"
#include "operator/cluster/cluster_view.hpp"

// Watches what the answer to a load depends on: injected pods, nodes and archives. Every replica
// does, so that each can answer loads and a new leader need not list them first.
//
//   ClusterWatch watch(client, settings.node_labels, stores, clock);
//   watch.start();
//   if (watch.has_synced()) ...
//   watch.stop();
//
// Fills the stores `pods`, `nodes` and `archives`, which must outlive it. Thread-safe but for
// start() and stop().

namespace compilecache::controller {

class ClusterWatch {
 public:
  ClusterWatch(const kube::Client& client, const api::NodeLabels& labels, ClusterStores& stores,
               const Clock& clock);

  void start();
  void stop();
  [[nodiscard]] bool has_synced() const;
  // `kube::Reflector::heard()` of the archives.
  [[nodiscard]] std::optional<Monotonic> archives_heard() const { return archives_.heard(); }

 private:
  const ClusterStores& stores_;
  kube::Reflector<PodView> pods_;
  kube::Reflector<NodeView> nodes_;
  kube::Reflector<api::CompileCacheArchive> archives_;
};

// For pods with that label.
kube::ReflectorOptions labelled_pods(const char* label);

}  // namespace compilecache::controller
