#include "tests/e2e/leader_worker_set.hpp"

#include "tests/e2e/sandbox.hpp"

namespace compilecache::e2e {

json leader_worker_set(const json& pod, int groups, int size) {
  const json pod_template{{"metadata", {{"annotations", pod["metadata"]["annotations"]}}},
                          {"spec", pod["spec"]}};
  return {{"apiVersion", "leaderworkerset.x-k8s.io/v1"},
          {"kind", "LeaderWorkerSet"},
          {"metadata", {{"name", "group"}, {"namespace", pod["metadata"]["namespace"]}}},
          {"spec",
           {{"replicas", groups},
            {"leaderWorkerTemplate", {{"size", size}, {"workerTemplate", pod_template}}}}}};
}

json pods_of_groups(const std::string& ns) {
  json list;
  EXPECT_TRUE(eventually(seconds(30), [&] {
    list = get_json({"pods", "-n", ns, "-l", "leaderworkerset.sigs.k8s.io/name=group"});
    return list.is_object();
  }));
  return list["items"];
}

}  // namespace compilecache::e2e
