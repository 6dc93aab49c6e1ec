#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"

// The directory on the shared volume that holds the archives of one CompileCache:
//
//   oci-layout, index.json, blobs/sha256/<hex>   an OCI image layout
//   compilecache.json                            whose store this is
//   nodes/<node>                                 one line: the GPU product of that node
//
// Directories are 0777 without the sticky bit, so that pods of different users can save into one
// store; files are 0644 and replaced by rename, never changed.

namespace compilecache::archive {

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

// Makes the store, or makes it whole again; calling it twice does what calling it once does.
// Missing parent directories are made too, 0777 each. kConflict: it belongs to somebody else and
// `adopt` is false, or is a folder with files in it that is no store, or a link (nothing was
// changed); kIo and kForbidden: the file system says no, with what to
// do about it.
Result<PreparedStore> prepare_store(const std::string& store, const StoreOwner& owner, bool adopt);

// kNotFound: no store there; kCorrupt: its marker cannot be read.
Result<StoreOwner> read_store_owner(const std::string& store);

struct StoreProbe {
  uint64_t free_bytes = 0;  // for unprivileged users
  uint64_t total_bytes = 0;
  uint64_t free_inodes = 0;  // 0 where the file system does not count them
  bool can_link = false;     // hard links; nothing depends on them
  WallTime now{};            // by the clock that gives files their times, which may be a server's
};

// Tries what saving relies on: create, write, fsync, rename over an existing file, fsync of the
// directory, remove. The error names the step that failed.
Result<StoreProbe> probe_store(const std::string& store);

// Notes which GPU product a node has, for loads without the operator. One file for each node,
// replaced by rename: savers on many nodes never lose or tear each other's notes. Nothing is
// written when the note already says so. kInvalid: not a node name.
Status note_node_product(const std::string& store, const std::string& node,
                         const std::string& product);

// kNotFound: no note for this node.
Result<std::string> read_node_product(const std::string& store, const std::string& node);

}  // namespace compilecache::archive
