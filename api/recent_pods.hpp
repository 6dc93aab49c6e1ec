#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace compilecache::api {

// One pod's story in a line.
struct RecentPod {
  std::string pod, pod_uid, node, gpu_product, archive;
  std::string load;  // exact, compatible, none, failed
  int64_t milliseconds = 0;
  std::string effect;  // full, partial, none, unused, unknown; empty: not yet known
  std::string reason;
  std::string time;
  bool operator==(const RecentPod&) const = default;
};

// The texts of a RecentPod by their names in the resource.
struct RecentPodText {
  const char* name;
  std::string RecentPod::*text;
};
inline constexpr RecentPodText kRecentPodTexts[] = {
    {"pod", &RecentPod::pod},         {"podUID", &RecentPod::pod_uid},
    {"node", &RecentPod::node},       {"gpuProduct", &RecentPod::gpu_product},
    {"archive", &RecentPod::archive}, {"load", &RecentPod::load},
    {"effect", &RecentPod::effect},   {"reason", &RecentPod::reason},
    {"time", &RecentPod::time},
};

// Some of them in one piece of memory, a fifth of what a vector takes: every replica holds those of
// every CompileCache, and few ever look.
//
//   RecentPods recent = pods;                       // std::vector<RecentPod>
//   for (const RecentPod& pod : recent.list()) ...
class RecentPods {
 public:
  RecentPods() = default;
  RecentPods(const std::vector<RecentPod>& pods);  // NOLINT: the same in another form
  RecentPods(std::initializer_list<RecentPod> pods) : RecentPods(std::vector<RecentPod>(pods)) {}

  [[nodiscard]] std::vector<RecentPod> list() const;
  bool operator==(const RecentPods&) const = default;

 private:
  // Of each text its length plus one (LEB128) and its bytes, or 0: the same as of the pod before.
  std::string packed_;
};

}  // namespace compilecache::api
