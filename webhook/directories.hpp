#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frameworks/framework.hpp"
#include "podspec/pod_fragments.hpp"
#include "webhook/decision.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/selection.hpp"

// Plans where each framework's cache lies in the pod, and which mounts that takes. Pure.
//
// Normally all are folders of one injected emptyDir. A directory that the user chose by a literal
// variable is honoured. An emptyDir of its own is mounted there, or the loader and the saver also
// mount the emptyDir that the pod already mounts there (or above).

namespace compilecache::webhook {

struct CacheDirectory {
  const frameworks::Framework* framework = nullptr;
  std::string path;
  bool users_choice = false;
};

struct DirectoryPlan {
  std::vector<CacheDirectory> directories;
  std::vector<std::string> volumes;          // emptyDirs to add to the pod
  std::vector<podspec::Mount> mounts;        // for app, loader and saver
  std::vector<podspec::Mount> agent_mounts;  // the pod's own, for loader and saver
  int64_t size_limit = 0;  // the smallest of the pod's own volumes in use; 0: none
  // Whether one of them is in memory: what the loader writes there counts as its own memory.
  bool in_memory = false;

  // The directories that are part of the archive's key, "torch=/my/dir": those that the user chose.
  [[nodiscard]] std::string key_text() const;
};

// Skips with kCacheDirNotLiteral, kCacheDirUnsafe or kMountConflict.
Decided<DirectoryPlan> plan_directories(
    const Json& pod, const Selection& selection,
    const std::vector<const frameworks::Framework*>& frameworks);

}  // namespace compilecache::webhook
