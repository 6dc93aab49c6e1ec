#pragma once

#include <string>
#include <vector>

#include "api/compile_cache_archive.hpp"

// Learns which ranks' folders the pods with one place in their groups use, so that the next pod
// there loads these and not those of others.
//
//   note_ranks("worker-index=1", "uid-1", {"vllm/torch_compile_cache/AB/rank_4_0"}, archive.ranks);
//   own_ranks("worker-index=1", archive.ranks);    // nothing, until kPodsThatAgree have agreed
//
// It is learnt and not reckoned, since how places become ranks is the application's affair. Where a
// place's ranks turn out to move (Ray gives them by address) nothing is left out there any more.
// Pure.

namespace compilecache::controller {

// So many pods in a row have to use the same before others' are left out. Where ranks are dealt at
// random among three pods or more, one in nine is wrong once; it then compiles what it would have
// compiled without an archive.
inline constexpr int64_t kPodsThatAgree = 3;

// Takes note of the folders that a pod has used so far. Returns whether that changed anything.
// Folders that could not be meant are passed over.
bool note_ranks(const std::string& member, const std::string& pod_uid,
                const std::vector<std::string>& directories, std::vector<api::RankRecord>& records);

// The folders of that place's ranks, in layouts where they are known.
std::vector<std::string> own_ranks(const std::string& member,
                                   const std::vector<api::RankRecord>& records);

}  // namespace compilecache::controller
