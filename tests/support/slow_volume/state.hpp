#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// The state that the file system (server.cpp) and its driver share: a file that both map, so that
// it works whatever the volume does at the moment.

namespace compilecache::testing {

// Each is one round trip of a network file system.
enum class VolumeOperation : unsigned {
  kLookup,   // of one component of a path; nothing is cached, so each use of a path pays again
  kGetattr,  // stat of what is open or looked up
  kSetattr,  // chmod, chown, truncate, utimes
  kOpen,
  kCreate,  // and open
  kMkdir,
  kUnlink,  // and rmdir
  kRename,
  kLink,
  kList,  // opendir and each readdir
  kStatfs,
  kRead,
  kWrite,
  kSync,  // of a file or directory
};
inline constexpr size_t kVolumeOperations = 14;
inline constexpr std::array<const char*, kVolumeOperations> kVolumeOperationNames{
    "lookup", "getattr", "setattr", "open",   "create", "mkdir", "unlink",
    "rename", "link",    "list",    "statfs", "read",   "write", "sync"};

using VolumeOperations = uint32_t;  // a set of them
constexpr VolumeOperations operations_of(VolumeOperation operation) {
  return VolumeOperations{1} << static_cast<unsigned>(operation);
}
template <typename... More>
constexpr VolumeOperations operations_of(VolumeOperation first, More... more) {
  return operations_of(first) | operations_of(more...);
}
inline constexpr VolumeOperations kAllOperations = (VolumeOperations{1} << kVolumeOperations) - 1;
inline constexpr VolumeOperations kDataOperations =
    operations_of(VolumeOperation::kRead, VolumeOperation::kWrite);
inline constexpr VolumeOperations kMetadataOperations =
    kAllOperations & ~kDataOperations & ~operations_of(VolumeOperation::kSync);
// The operations that a full or read-only volume refuses.
inline constexpr VolumeOperations kChangingOperations =
    operations_of(VolumeOperation::kSetattr, VolumeOperation::kCreate, VolumeOperation::kMkdir,
                  VolumeOperation::kUnlink, VolumeOperation::kRename, VolumeOperation::kLink,
                  VolumeOperation::kWrite);

struct VolumeState {
  std::atomic<uint32_t> ready{0};
  std::atomic<uint32_t> delay_us{0};       // before each operation
  std::atomic<int64_t> clock_behind_s{0};  // files appear to be so much older
  // The rate of all reads together, as a network's (0: no limit), and until when it is used up.
  std::atomic<uint64_t> bytes_per_second{0};
  std::atomic<int64_t> busy_until_ns{0};
  std::atomic<uint32_t> hang{0};     // operations that wait until they are let go
  std::atomic<uint32_t> hanging{0};  // how many wait now
  // These operations give `error`, `error_skip` of them later, `error_times` times.
  std::atomic<uint32_t> error_operations{0};
  std::atomic<int32_t> error{0};
  std::atomic<int64_t> error_skip{0};
  std::atomic<int64_t> error_times{0};
  std::array<std::atomic<uint64_t>, kVolumeOperations> count{};
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace compilecache::testing
