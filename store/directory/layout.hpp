#pragma once

#include <string>
#include <string_view>

// The files of a store's directory:
//
//   oci-layout, index.json, blobs/sha256/<hex>   an OCI image layout
//   compilecache.json                            whose store this is
//   nodes/<node>                                 one line: the GPU product of that node
//
// Directories are 0777 without the sticky bit, so that pods of different users can save into one
// store; files are 0644 and replaced by rename, never changed.

namespace compilecache::store {

inline std::string blobs_directory(const std::string& store) { return store + "/blobs/sha256"; }
inline std::string nodes_directory(const std::string& store) { return store + "/nodes"; }

// The digest must be one that archive::is_digest() accepts.
inline std::string blob_path(const std::string& store, std::string_view digest) {
  return blobs_directory(store) + "/" + std::string(digest.substr(digest.find(':') + 1));
}

}  // namespace compilecache::store
