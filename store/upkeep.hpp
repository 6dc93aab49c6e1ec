#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

// What the Job that looks after a store does to it: prepare it, try it, list it, delete from it.
// Which blobs live and which are condemned is decided by the caller.
//
//   const auto prepared = upkeep.prepare(owner, adopt);
//   const auto probe = upkeep.probe();
//   upkeep.remove_incomplete(std::chrono::minutes(1), probe->now);
//   upkeep.remove(condemned);

namespace compilecache::store {

struct StoreOwner {
  std::string cluster;        // uid of the kube-system namespace
  std::string ns;             // namespace of the CompileCache
  std::string compile_cache;  // uid of the CompileCache

  bool operator==(const StoreOwner&) const = default;
};

struct PreparedStore {
  bool created = false;  // there was no store before
  // Whose it was before `adopt` took it over.
  std::optional<StoreOwner> adopted_from;
};

struct StoreProbe {
  uint64_t free_bytes = 0;  // for unprivileged users
  uint64_t total_bytes = 0;
  uint64_t free_inodes = 0;  // 0 where the store does not count them
  bool can_link = false;     // hard links; nothing depends on them
  WallTime now{};            // by the clock that gives blobs their times, which may be a server's
};

struct StoredBlob {
  std::string digest;
  uint64_t size = 0;
  WallTime modified{};
};

struct SweepCounts {
  uint64_t removed = 0;
  uint64_t freed_bytes = 0;
  uint64_t missing = 0;               // were not there (any more)
  std::vector<std::string> failures;  // what could not be removed, and why
};

// Thread-safe.
class Upkeep {
 public:
  virtual ~Upkeep() = default;

  // Makes the store, or makes it whole again; calling it twice does what calling it once does.
  // kConflict: it belongs to somebody else and `adopt` is false, or holds what is no store of ours
  // (nothing was changed); kIo and kForbidden: the system below says no, with what to do about it.
  virtual Result<PreparedStore> prepare(const StoreOwner& owner, bool adopt) = 0;
  // kNotFound: no store there; kCorrupt: what it says of its owner cannot be read.
  [[nodiscard]] virtual Result<StoreOwner> owner() const = 0;
  // Tries what saving relies on. The error names the step that failed.
  virtual Result<StoreProbe> probe() = 0;
  // All blobs, sorted by digest; what is not one is not listed.
  [[nodiscard]] virtual Result<std::vector<StoredBlob>> list() const = 0;
  // Removes what writers that died left behind, if it was last written `older_than` before `now`
  // (StoreProbe::now). A writer at work writes more often than any sensible age.
  virtual Result<SweepCounts> remove_incomplete(std::chrono::milliseconds older_than,
                                                WallTime now) = 0;
  // Deletes these blobs. kInvalid, and nothing is deleted, if one of them is not a digest.
  virtual Result<SweepCounts> remove(const std::vector<std::string>& digests) = 0;
};

}  // namespace compilecache::store
