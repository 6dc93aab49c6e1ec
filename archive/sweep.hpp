#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

// The store's broom. Which digests live and which are condemned is decided by the caller.

namespace compilecache::archive {

struct BlobInfo {
  std::string digest;
  uint64_t size = 0;
  WallTime modified{};
};

// All blobs, sorted by digest. Files that are not blobs (incomplete ones, .nfs…) are not listed.
Result<std::vector<BlobInfo>> list_blobs(const std::string& store);

struct SweepCounts {
  uint64_t removed = 0;
  uint64_t freed_bytes = 0;
  uint64_t missing = 0;               // were not there (any more)
  std::vector<std::string> failures;  // what could not be removed, and why
};

// Removes what writers that died left behind: files of the store named *.incomplete that were last
// written `older_than` before `now`, by the volume's clock (StoreProbe::now). A writer at work
// writes more often than any sensible age.
Result<SweepCounts> remove_incomplete(const std::string& store,
                                      std::chrono::milliseconds older_than, WallTime now);

// Deletes these blobs. kInvalid, and nothing is deleted, if one of them is not a digest.
Result<SweepCounts> delete_blobs(const std::string& store, const std::vector<std::string>& digests);

}  // namespace compilecache::archive
