#include "store/registry/registry_store.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "archive/format.hpp"
#include "base/sha256.hpp"
#include "store/checked_blob.hpp"
#include "store/registry/blob_reader.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/upload.hpp"

namespace compilecache::store {
namespace {

using archive::WrittenBlob;

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool lacks_blobs(const Refusal& refusal) {
  return (refusal.status == 400 || refusal.status == 404) &&
         (refusal.has("BLOB_UNKNOWN") || refusal.has("MANIFEST_BLOB_UNKNOWN"));
}

Status check_still_there(const Reply<uint64_t>& head, const std::string& what) {
  if (head) return {};
  Error error = head.error().error;
  if (head.error().status == 404) {
    error = {ErrorCode::kUnavailable,
             what + " was pushed and is not there: the registry lost it; it is saved again"};
    error.reason = kReasonUnreachable;
  }
  return unexpected(error);
}

}  // namespace

class RegistryStore::SpooledWriter : public archive::BlobWriter {
 public:
  SpooledWriter(RegistryStore& store, std::shared_ptr<SpoolFile> file, Pushing pushing)
      : store_(store), file_(std::move(file)), pushing_(pushing) {}
  Status write(std::span<const uint8_t> bytes) override {
    auto written = file_->write(bytes);
    // A running push gives its room back.
    if (!written && written.error().code == ErrorCode::kTooLarge && store_.pushes_.wait())
      written = file_->write(bytes);
    return written;
  }
  [[nodiscard]] uint64_t size() const override { return file_->size(); }
  Result<WrittenBlob> commit(const std::vector<std::string>& rewrite) override {
    return store_.commit_blob(std::move(file_), pushing_, rewrite);
  }

 private:
  RegistryStore& store_;
  std::shared_ptr<SpoolFile> file_;
  const Pushing pushing_;
};

class RegistryStore::ManifestWriter : public archive::BlobWriter {
 public:
  explicit ManifestWriter(RegistryStore& store) : store_(store) {}
  Status write(std::span<const uint8_t> bytes) override {
    if (text_.size() + bytes.size() > kMostManifestBytes) {
      return fail(ErrorCode::kTooLarge, "a manifest of more than " +
                                            std::to_string(kMostManifestBytes) +
                                            " bytes, which registries do not take");
    }
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  [[nodiscard]] uint64_t size() const override { return text_.size(); }
  Result<WrittenBlob> commit(const std::vector<std::string>& rewrite) override {
    return store_.commit_manifest(text_, rewrite);
  }

 private:
  RegistryStore& store_;
  std::string text_;
};

class RegistryStore::SpooledReader : public archive::BlobReader {
 public:
  explicit SpooledReader(std::shared_ptr<SpoolFile> file) : file_(std::move(file)) {}
  [[nodiscard]] uint64_t size() const override { return file_->size(); }
  [[nodiscard]] Result<size_t> read_at(std::span<uint8_t> bytes, uint64_t offset) const override {
    const uint64_t left = file_->size() - std::min(offset, file_->size());
    bytes = bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), left)));
    if (auto read = file_->read_at(bytes, offset); !read) return unexpected(read.error());
    return bytes.size();
  }

 private:
  const std::shared_ptr<SpoolFile> file_;
};

RegistryStore::RegistryStore(RegistryOptions options)
    : client_(std::move(options)),
      upkeep_(client_),
      signatures_(client_),
      spool_(client_.options().spool_folder, client_.options().spool_limit),
      pushes_(client_) {}
RegistryStore::~RegistryStore() = default;

Result<std::unique_ptr<archive::BlobReader>> RegistryStore::open(
    const archive::Descriptor& blob) const {
  if (auto good = archive::check_digest(blob.digest); !good) return unexpected(good.error());
  if (auto spooled = spool_.find(blob.digest))
    return std::make_unique<SpooledReader>(std::move(spooled));
  pushes_.wait();  // it may be among these
  if (blob.media_type != archive::kManifestMediaType) return open_registry_blob(client_, blob);
  auto text = get_manifest(client_, blob.digest);
  if (!text) return unexpected(text.error().error.about(blob.digest));
  return archive::read_from_memory(std::move(*text));
}

Result<uint64_t> RegistryStore::size_of(const std::string& digest) const {
  if (auto good = archive::check_digest(digest); !good) return unexpected(good.error());
  pushes_.wait();
  auto size = registry_blob_size(client_, digest);
  if (size || size.error().code != ErrorCode::kNotFound) return size;
  // Manifests are not among the blobs everywhere.
  const auto manifest = head_manifest(client_, digest);
  if (manifest) return manifest->size;
  if (manifest.error().status == 404) return size;
  return unexpected(manifest.error().error.about(digest));
}

Result<std::unique_ptr<archive::BlobWriter>> RegistryStore::create(const std::string& media_type) {
  if (media_type == archive::kManifestMediaType) return std::make_unique<ManifestWriter>(*this);
  auto file = spool_.create();
  if (!file) return unexpected(file.error());
  const auto pushing =
      media_type == archive::kLayerMediaType ? Pushing::kMeanwhile : Pushing::kAtOnce;
  return std::make_unique<SpooledWriter>(*this, std::move(*file), pushing);
}

Result<WrittenBlob> RegistryStore::commit_blob(std::shared_ptr<SpoolFile> file, Pushing pushing,
                                               const std::vector<std::string>& rewrite) {
  WrittenBlob written{file->finish(), file->size()};
  if (!contains(rewrite, written.digest)) {
    pushes_.wait_for(written.digest);  // the registry has it only then
    const auto size = registry_blob_size(client_, written.digest);
    if (!size && size.error().code != ErrorCode::kNotFound) return unexpected(size.error());
    written.existed = size && *size == written.size;
  }
  const bool anew = contains(rewrite, written.digest);
  if (!written.existed && pushing == Pushing::kMeanwhile && !anew) {
    pushes_.begin(written.digest, file);
  } else if (!written.existed) {
    auto pushed = push_blob(client_, written.digest, *file);
    // Smaller ones are read from their manifest.
    if (pushed && anew && written.size > carried_up_to())
      pushed = read_back(written.digest, written.size);
    if (!pushed) {
      pushes_.forget();
      spool_.forget();
      return unexpected(pushed.error());
    }
  }
  spool_.keep(written.digest, std::move(file));
  const MutexLock lock(mutex_);
  if (!written.existed) pushed_.insert(written.digest);
  if (written.existed || pushing == Pushing::kAtOnce) blobs_.insert(written.digest);
  return written;
}

Status RegistryStore::read_back(const std::string& digest, uint64_t size) {
  const archive::Descriptor blob{archive::kLayerMediaType, digest, size};
  auto reader = open_registry_blob(client_, blob);
  if (!reader) return unexpected(reader.error());
  const auto checked = check_blob(blob, **reader);
  if (checked || checked.error().code != ErrorCode::kCorrupt) return checked;
  return fail(ErrorCode::kAlreadyExists,
              "blob " + digest + " is damaged in " + client_.name() +
                  ", and stays so although it was pushed again; the archive is written in other "
                  "bytes");
}

// All blobs that the manifest names and the registry lacks.
Status RegistryStore::push_again(const std::vector<std::string>& blobs) {
  for (const std::string& digest : blobs) {
    if (const auto file = spool_.find(digest)) {
      if (auto pushed = push_blob(client_, digest, *file); !pushed) return pushed;
      continue;
    }
    auto size = registry_blob_size(client_, digest);
    if (size) continue;
    if (size.error().code != ErrorCode::kNotFound) return unexpected(size.error());
    const MutexLock lock(mutex_);
    if (!blobs_.contains(digest)) return unexpected(size.error());  // of the parent
    Error error{ErrorCode::kUnavailable,
                "blob " + digest + " was pushed to " + client_.name() +
                    " and is not there, and it is not kept here any more; it is saved again"};
    error.reason = kReasonUnreachable;
    return unexpected(error);
  }
  return {};
}

Result<WrittenBlob> RegistryStore::commit_manifest(const std::string& text,
                                                   const std::vector<std::string>& rewrite) {
  WrittenBlob written{"sha256:" + sha256_hex(text), text.size()};
  const auto facts = manifest_facts(text);
  if (!facts) return unexpected(facts.error());
  std::vector<std::string> blobs;
  for (const auto& blob : facts->blobs) blobs.push_back(blob.first);
  if (auto pushed = end_pushes(pushes_.finish(blobs)); !pushed) {
    spool_.forget();
    // Nothing will name the others: the next sync() has not to find them.
    const MutexLock lock(mutex_);
    for (const std::string& blob : blobs) blobs_.erase(blob);
    return unexpected(pushed.error());
  }
  written.existed = !contains(rewrite, written.digest) && !any_pushed(blobs) &&
                    head_manifest(client_, written.digest).has_value();
  const auto put = [&](const std::string& reference) -> Reply<void> {
    auto done = put_manifest(client_, reference, text);
    if (done || !lacks_blobs(done.error())) return done;
    if (auto pushed = push_again(blobs); !pushed)
      return tl::unexpected(Refusal{0, {}, std::nullopt, {}, pushed.error()});
    done = put_manifest(client_, reference, text);
    if (!done && lacks_blobs(done.error())) {
      done.error().error.code = ErrorCode::kUnavailable;
      done.error().error.reason = kReasonUnreachable;
    }
    return done;
  };
  // A tagged manifest is available by its digest too.
  auto done = put(tag_of(facts->generation, written.digest));
  if (!done) {
    spool_.forget();
    const bool parent = done.error().status == 0 && !done.error().error.digest.empty();
    return unexpected(parent ? done.error().error : write_error(done.error()));
  }
  if (contains(rewrite, written.digest)) {
    const auto there = get_manifest(client_, written.digest);
    if (!there) return unexpected(write_error(there.error()));
    if (*there != text) {
      return fail(ErrorCode::kAlreadyExists, "manifest " + written.digest + " is damaged in " +
                                                 client_.name() +
                                                 ", and stays so although it was pushed again");
    }
  }
  note(written.digest, blobs);
  return written;
}

Status RegistryStore::end_pushes(const Result<Pushes::Digests>& pushed) {
  if (!pushed) return unexpected(pushed.error());
  const MutexLock lock(mutex_);
  blobs_.insert(pushed->begin(), pushed->end());
  return {};
}

// A manifest of blobs that were not there was not there either.
bool RegistryStore::any_pushed(const std::vector<std::string>& blobs) {
  const MutexLock lock(mutex_);
  return std::any_of(blobs.begin(), blobs.end(),
                     [this](const auto& blob) REQUIRES(mutex_) { return pushed_.contains(blob); });
}

void RegistryStore::note(const std::string& manifest, const std::vector<std::string>& blobs) {
  const MutexLock lock(mutex_);
  manifests_.insert(manifest);
  blobs_.insert(blobs.begin(), blobs.end());
}

Status RegistryStore::sync() {
  if (auto pushed = end_pushes(pushes_.finish_all()); !pushed) return pushed;
  std::set<std::string> manifests, blobs;
  {
    const MutexLock lock(mutex_);
    manifests.swap(manifests_);
    blobs.swap(blobs_);
    pushed_.clear();
  }
  for (const std::string& digest : manifests) {
    const auto head = head_manifest(client_, digest);
    const auto size = head ? Reply<uint64_t>(head->size) : tl::unexpected(head.error());
    if (auto there = check_still_there(size, "manifest " + digest); !there) return there;
  }
  for (const std::string& digest : blobs) {
    auto size = registry_blob_size(client_, digest);
    if (size) continue;
    Refusal refusal{size.error().code == ErrorCode::kNotFound ? 404 : 0, {}, {}, {}, size.error()};
    return check_still_there(tl::unexpected(std::move(refusal)), "blob " + digest);
  }
  spool_.forget();
  return {};
}

Trouble RegistryStore::trouble(const Error& error, Use) const {
  if (error.os_error == ENOSPC || error.os_error == EDQUOT) return Trouble::kDiskFull;
  return error.reason.empty() ? Trouble::kOther : Trouble::kNamed;
}

}  // namespace compilecache::store
