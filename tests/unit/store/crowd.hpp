#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/archive/archive_fixture.hpp"

// Stands for the operator in tests with many processes: it knows which archive is current, what it
// holds, who saves, and what a sweep may delete. It follows the operator's rules: a commit extends
// the head or fails; blobs go in two steps; a commit that names swept blobs is refused.
// It is a file under a lock, because the processes that use it are killed at any time.

namespace compilecache::archive::test {

inline constexpr int kCrowdArchives = 6;
inline constexpr int kCrowdSlots = 96;  // files of an archive

// The content of an archive's slot in a version. There are few different contents, so that the same
// blobs are made again.
FileContent crowd_content(int slot, int version);
std::string crowd_path(int slot);

struct CrowdHead {
  std::string manifest;            // empty: nothing saved yet
  std::vector<std::string> blobs;  // including the manifest
  uint64_t manifest_bytes = 0;
  int generation = 0;
  std::vector<int> versions;  // of each slot; 0: none
  uint64_t began = 0;         // the ledger's count when it was read

  [[nodiscard]] Tree tree() const;
};

class CrowdLedger {
 public:
  explicit CrowdLedger(std::string directory);

  CrowdHead head(int archive);
  // Returns false while another living process has the lock.
  bool take_save_lock(int archive);
  void leave_save_lock(int archive);

  enum class Commit { kDone, kConflict, kRefused };
  // `next` follows `head`, which this process read before it saved.
  Commit commit(int archive, const CrowdHead& head, const CrowdHead& next);
  // Whether a loader that got this head may find that it was deleted.
  bool may_be_gone(int archive, const std::string& manifest);

  // The blobs that a sweep may delete. There is none while another sweep runs.
  struct Sweep {
    bool granted = false;
    std::vector<std::string> deletable;
    std::vector<CrowdHead> heads;
  };
  Sweep begin_sweep(double grace_seconds);
  void end_sweep(const std::vector<std::string>& inventory);

  // Everything that a head, or the head before it, reaches.
  std::vector<std::string> referenced();
  // Does this while no process is changing the ledger.
  void undisturbed(const std::function<void()>& action);

 private:
  using Json = nlohmann::json;
  void locked(const std::function<bool(Json& truth)>& change);

  std::string directory_;
};

}  // namespace compilecache::archive::test
