#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "api/archive_key.hpp"

namespace compilecache::api {

// One pod's load, effect and save, in short. Texts and lists are bounded where they are filled in
// (operator/agents/heard_load.cpp), since one object holds many of these.
struct RecentPod {
  std::string pod, pod_uid, node, gpu_product, archive;
  ArchiveKey key;    // empty: it was not known
  std::string load;  // a word of LoadOutcome
  int64_t generation = 0;
  int64_t milliseconds = 0;
  // Parts of the milliseconds above: how long it waited because the operator said so, and how long
  // it took to find out which archive is its own. `wait_reason` says what it waited for.
  int64_t wait_milliseconds = 0, ask_milliseconds = 0;
  std::string wait_reason;
  int64_t bytes = 0;
  std::string effect;  // a word of Effect; empty: not yet known
  std::string reason, message;
  int64_t loaded_entries = 0, read_entries = 0, new_entries = 0;
  std::vector<std::string> compiled;   // some of the new entries
  std::vector<std::string> differing;  // in the framework's own key, by name
  int64_t compile_milliseconds = 0;    // as far as its new files tell
  int64_t saved_milliseconds = 0;      // by the archive, an estimate
  std::string save, save_reason;       // a word of SaveOutcome; empty: none yet
  std::string time;
  bool operator==(const RecentPod&) const = default;
};

// The fields of a RecentPod with their names in the resource; the key is not among them.
template <typename T>
struct RecentPodField {
  const char* name;
  T RecentPod::*field;
};
inline constexpr RecentPodField<std::string> kRecentPodTexts[] = {
    {"pod", &RecentPod::pod},
    {"podUID", &RecentPod::pod_uid},
    {"node", &RecentPod::node},
    {"gpuProduct", &RecentPod::gpu_product},
    {"archive", &RecentPod::archive},
    {"load", &RecentPod::load},
    {"effect", &RecentPod::effect},
    {"reason", &RecentPod::reason},
    {"time", &RecentPod::time},
    {"waitReason", &RecentPod::wait_reason},
    {"message", &RecentPod::message},
    {"save", &RecentPod::save},
    {"saveReason", &RecentPod::save_reason},
};
inline constexpr RecentPodField<int64_t> kRecentPodNumbers[] = {
    {"milliseconds", &RecentPod::milliseconds},
    {"generation", &RecentPod::generation},
    {"waitMilliseconds", &RecentPod::wait_milliseconds},
    {"askMilliseconds", &RecentPod::ask_milliseconds},
    {"bytes", &RecentPod::bytes},
    {"loadedEntries", &RecentPod::loaded_entries},
    {"readEntries", &RecentPod::read_entries},
    {"newEntries", &RecentPod::new_entries},
    {"compileMilliseconds", &RecentPod::compile_milliseconds},
    {"savedMilliseconds", &RecentPod::saved_milliseconds},
};
inline constexpr RecentPodField<std::vector<std::string>> kRecentPodLists[] = {
    {"compiled", &RecentPod::compiled},
    {"differing", &RecentPod::differing},
};

// RecentPods in one piece of memory, a fifth of what a vector takes: every replica holds those of
// every CompileCache, and they are rarely read.
//
//   RecentPods recent = pods;                       // std::vector<RecentPod>
//   for (const RecentPod& pod : recent.list()) ...
class RecentPods {
 public:
  RecentPods() = default;
  RecentPods(const std::vector<RecentPod>& pods);  // NOLINT: an implicit conversion is meant
  RecentPods(std::initializer_list<RecentPod> pods) : RecentPods(std::vector<RecentPod>(pods)) {}

  [[nodiscard]] std::vector<RecentPod> list() const;
  bool operator==(const RecentPods&) const = default;

 private:
  // A text is stored as its length plus one (LEB128) and its bytes, or as 0 where it is the same as
  // the previous pod's. A list is stored as the number of its texts and these, the key as a list of
  // names and values.
  std::string packed_;
};

}  // namespace compilecache::api
