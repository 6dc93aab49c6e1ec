#include "operator/cluster/pod_group.hpp"

#include <initializer_list>
#include <nlohmann/json.hpp>

namespace compilecache::controller {
namespace {

using nlohmann::json;
using Names = std::initializer_list<const char*>;

// "a.b/c=1,a.b/d=2"; empty unless all labels are there.
std::string all_of(const json& labels, Names names) {
  std::string text;
  for (const char* name : names) {
    const auto found = labels.find(name);
    if (found == labels.end() || !found->is_string()) return "";
    if (!text.empty()) text += ',';
    text += std::string(name) + "=" + found->get_ref<const std::string&>();
  }
  return text;
}

// The first that are there. Those of controllers that make others' objects come first: the pods of
// a LeaderWorkerSet are StatefulSets' too, where the leader's place is that of its whole group.
std::string first_of(const json& labels, std::initializer_list<Names> choices) {
  for (const Names& names : choices) {
    if (std::string text = all_of(labels, names); !text.empty()) return text;
  }
  return "";
}

}  // namespace

PodGroup pod_group(const json& labels) {
  if (!labels.is_object()) return {};
  return {first_of(labels, {{"leaderworkerset.sigs.k8s.io/group-key"},
                            {"jobset.sigs.k8s.io/jobset-uid"},
                            {"ray.io/cluster"},
                            {"volcano.sh/job-name"},
                            {"scheduling.x-k8s.io/pod-group"},
                            {"kueue.x-k8s.io/pod-group-name"}}),
          first_of(labels, {{"leaderworkerset.sigs.k8s.io/worker-index"},
                            {"jobset.sigs.k8s.io/job-global-index",
                             "batch.kubernetes.io/job-completion-index"},
                            {"batch.kubernetes.io/job-completion-index"},
                            {"apps.kubernetes.io/pod-index"}})};
}

}  // namespace compilecache::controller
