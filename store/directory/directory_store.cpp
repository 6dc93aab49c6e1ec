#include "store/directory/directory_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "store/directory/blob_files.hpp"
#include "store/directory/index_file.hpp"
#include "store/directory/layout.hpp"
#include "store/directory/node_notes.hpp"
#include "store/directory/prepare.hpp"
#include "store/directory/probe.hpp"
#include "store/directory/sweep.hpp"

namespace compilecache::store {
DirectoryStore::DirectoryStore(std::string path) : path_(std::move(path)) {}
DirectoryStore::~DirectoryStore() = default;

std::string DirectoryStore::blob_path(const std::string& digest) const {
  return store::blob_path(path_, digest);
}

Result<std::shared_ptr<const BlobFolder>> DirectoryStore::folder(
    const std::shared_ptr<const BlobFolder>& instead_of) const {
  const MutexLock lock(mutex_);
  if (folder_ == nullptr || folder_ == instead_of) {
    folder_ = nullptr;
    auto opened = BlobFolder::open(path_);
    if (!opened) return unexpected(opened.error());
    folder_ = std::make_shared<const BlobFolder>(std::move(*opened));
  }
  return folder_;
}

Result<std::unique_ptr<archive::BlobReader>> DirectoryStore::open(
    const archive::Descriptor& blob) const {
  if (auto good = archive::check_digest(blob.digest); !good) return unexpected(good.error());
  std::shared_ptr<const BlobFolder> held;
  {
    const MutexLock lock(mutex_);
    held = folder_;
  }
  if (held != nullptr) {
    auto reader = held->open_blob(blob.digest);
    if (reader || reader.error().code != ErrorCode::kNotFound) return reader;
    // The folder itself may have been replaced since it was opened.
  }
  auto now = folder(held);
  if (!now) return unexpected(now.error());
  return (*now)->open_blob(blob.digest);
}

Result<uint64_t> DirectoryStore::size_of(const std::string& digest) const {
  if (auto good = archive::check_digest(digest); !good) return unexpected(good.error());
  return blob_size(path_, digest);
}

Result<std::unique_ptr<archive::BlobWriter>> DirectoryStore::create(const std::string&) {
  auto writer = FileBlobWriter::create(path_);
  if (!writer) return unexpected(writer.error());
  return std::unique_ptr<archive::BlobWriter>(std::move(*writer));
}

Status DirectoryStore::sync() { return sync_blobs(path_); }

Trouble DirectoryStore::trouble(const Error& error, Use use) const {
  if (error.os_error == ENOSPC || error.os_error == EDQUOT) return Trouble::kFull;
  const std::string blobs = blobs_directory(path_);
  if (::access(blobs.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return Trouble::kMissing;
  }
  const int mode = X_OK | (use == Use::kWrite ? W_OK : R_OK);
  // Checks the effective user, while access() checks the real one.
  const bool may = ::faccessat(AT_FDCWD, blobs.c_str(), mode, AT_EACCESS) == 0;
  if (!may && (errno == EACCES || errno == EPERM || errno == EROFS)) return Trouble::kForbidden;
  return Trouble::kOther;
}

Result<Index> DirectoryStore::read_index() const { return store::read_index(path_); }

Status DirectoryStore::write_index(const std::vector<IndexEntry>& entries) {
  return store::write_index(path_, entries);
}

Status DirectoryStore::update_index(const IndexEntry& entry) {
  return store::update_index(path_, entry);
}

Status DirectoryStore::extend_index(const std::string& expected, const IndexEntry& entry) {
  return store::extend_index(path_, expected, entry);
}

Status DirectoryStore::note_node_product(const std::string& node, const std::string& product) {
  return store::note_node_product(path_, node, product);
}

Result<std::string> DirectoryStore::node_product(const std::string& node) const {
  return read_node_product(path_, node);
}

Result<PreparedStore> DirectoryStore::prepare(const StoreOwner& owner, bool adopt) {
  return prepare_store(path_, owner, adopt);
}

Result<StoreOwner> DirectoryStore::owner() const { return read_store_owner(path_); }

Result<StoreProbe> DirectoryStore::probe() { return probe_store(path_); }

Result<std::vector<StoredBlob>> DirectoryStore::list() const { return list_blobs(path_); }

Result<SweepCounts> DirectoryStore::remove_incomplete(std::chrono::milliseconds older_than,
                                                      WallTime now) {
  return store::remove_incomplete(path_, older_than, now);
}

Result<SweepCounts> DirectoryStore::remove(const std::vector<std::string>& digests) {
  return delete_blobs(path_, digests);
}

}  // namespace compilecache::store
