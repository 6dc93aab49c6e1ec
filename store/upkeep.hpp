#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/index.hpp"

// A sweep Job's work on a store: it prepares and tests it, lists its blobs and deletes some. The
// caller decides which blobs are condemned.
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
  // The owner before, if `adopt` changed it.
  std::optional<StoreOwner> adopted_from;
};

struct StoreProbe {
  uint64_t free_bytes = 0;  // for unprivileged users
  uint64_t total_bytes = 0;
  uint64_t free_inodes = 0;  // 0: the store does not count them
  bool can_link = false;     // hard links; nothing depends on them
  WallTime now{};            // by the clock that sets blobs' times, maybe a server's
};

struct StoredBlob {
  std::string digest;
  uint64_t size = 0;
  WallTime modified{};
  bool kept = false;  // others have use for it, or may: it is never to be deleted
};

struct SweepCounts {
  uint64_t removed = 0;
  uint64_t freed_bytes = 0;
  uint64_t missing = 0;               // did not exist (any more)
  std::vector<std::string> failures;  // what could not be removed, and why
};

// Thread-safe.
class Upkeep {
 public:
  virtual ~Upkeep() = default;

  // Creates the store, or repairs it; idempotent. kConflict: the store belongs to another owner and
  // `adopt` is false, or the place has files that are not a store (nothing was changed).
  // kIo, kForbidden: a system call failed; the message says what to do.
  virtual Result<PreparedStore> prepare(const StoreOwner& owner, bool adopt) = 0;
  // kNotFound: there is no store; kCorrupt: the record of its owner cannot be read.
  [[nodiscard]] virtual Result<StoreOwner> owner() const = 0;
  // Tests the operations that saving needs. The error names the step that failed.
  virtual Result<StoreProbe> probe() = 0;
  // Lists all blobs, sorted by digest. Other files are not listed. An error where some are there
  // that cannot be listed now, unless no blob is then wrongly said to be free to be deleted.
  [[nodiscard]] virtual Result<std::vector<StoredBlob>> list() const = 0;
  // All saves that the store itself can name, of a store without an index, as sort_entries() sorts
  // them; Index::problems tell of those that it could not read.
  [[nodiscard]] virtual Result<Index> archives() const { return Index(); }
  // Removes files that writers left behind when they died, if they were last written more than
  // `older_than` before `now` (StoreProbe::now). A live writer writes more often than that.
  virtual Result<SweepCounts> remove_incomplete(std::chrono::milliseconds older_than,
                                                WallTime now) = 0;
  // Deletes these blobs. kInvalid: one of them is not a digest; nothing is deleted.
  virtual Result<SweepCounts> remove(const std::vector<std::string>& digests) = 0;
};

}  // namespace compilecache::store
