#include "store/memory/memory_store.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/sha256.hpp"
#include "store/node_name.hpp"

namespace compilecache::store {
namespace {

constexpr const char* kIndexSource = "the index in memory";

std::string digest_of(const std::string& content) { return "sha256:" + sha256_hex(content); }

class Reader : public archive::BlobReader {
 public:
  explicit Reader(std::shared_ptr<const std::string> content) : content_(std::move(content)) {}

  [[nodiscard]] uint64_t size() const override { return content_->size(); }
  [[nodiscard]] Result<size_t> read_at(std::span<uint8_t> bytes, uint64_t offset) const override {
    if (offset >= content_->size()) return size_t{0};
    const size_t count = std::min<size_t>(bytes.size(), content_->size() - offset);
    std::memcpy(bytes.data(), content_->data() + offset, count);
    return count;
  }

 private:
  const std::shared_ptr<const std::string> content_;
};

tl::unexpected<Error> missing(const std::string& digest) {
  return unexpected(Error{ErrorCode::kNotFound, "no blob " + digest + " in memory", digest});
}

}  // namespace

class MemoryStore::Writer : public archive::BlobWriter {
 public:
  explicit Writer(MemoryStore& store) : store_(store) {}

  Status write(std::span<const uint8_t> bytes) override {
    content_.append(bytes.begin(), bytes.end());
    return {};
  }
  [[nodiscard]] uint64_t size() const override { return content_.size(); }
  Result<archive::WrittenBlob> commit(const std::vector<std::string>& rewrite) override {
    return store_.commit(std::move(content_), rewrite);
  }

 private:
  MemoryStore& store_;
  std::string content_;
};

void MemoryStore::put(const std::string& digest, std::string content) {
  const MutexLock lock(mutex_);
  blobs_[digest] = {std::make_shared<const std::string>(std::move(content)), clock_.wall()};
}

std::optional<std::string> MemoryStore::take(const std::string& digest) {
  const MutexLock lock(mutex_);
  const auto found = blobs_.find(digest);
  if (found == blobs_.end()) return std::nullopt;
  std::string content = *found->second.content;
  blobs_.erase(found);
  return content;
}

void MemoryStore::put_index(std::string text) {
  const MutexLock lock(mutex_);
  index_ = std::move(text);
}

Status MemoryStore::check_prepared() const {
  if (owner_) return {};
  return fail(ErrorCode::kIo, "the store in memory is not prepared");
}

Result<std::unique_ptr<archive::BlobReader>> MemoryStore::open(
    const archive::Descriptor& blob) const {
  if (auto good = archive::check_digest(blob.digest); !good) return unexpected(good.error());
  const MutexLock lock(mutex_);
  const auto found = blobs_.find(blob.digest);
  if (found == blobs_.end()) return missing(blob.digest);
  return std::make_unique<Reader>(found->second.content);
}

Result<uint64_t> MemoryStore::size_of(const std::string& digest) const {
  if (auto good = archive::check_digest(digest); !good) return unexpected(good.error());
  const MutexLock lock(mutex_);
  const auto found = blobs_.find(digest);
  if (found == blobs_.end()) return missing(digest);
  return found->second.content->size();
}

Result<std::unique_ptr<archive::BlobWriter>> MemoryStore::create(const std::string&) {
  const MutexLock lock(mutex_);
  if (auto prepared = check_prepared(); !prepared) return unexpected(prepared.error());
  return std::make_unique<Writer>(*this);
}

Result<archive::WrittenBlob> MemoryStore::commit(std::string content,
                                                 const std::vector<std::string>& rewrite) {
  archive::WrittenBlob written{digest_of(content), content.size(), false};
  const MutexLock lock(mutex_);
  Blob& blob = blobs_[written.digest];
  const bool condemned = std::find(rewrite.begin(), rewrite.end(), written.digest) != rewrite.end();
  if (!condemned && blob.content != nullptr && *blob.content == content) {
    written.existed = true;
    return written;
  }
  blob = {std::make_shared<const std::string>(std::move(content)), clock_.wall()};
  return written;
}

Status MemoryStore::sync() {
  const MutexLock lock(mutex_);
  return check_prepared();
}

Trouble MemoryStore::trouble(const Error&, Use) const {
  const MutexLock lock(mutex_);
  return owner_ ? Trouble::kOther : Trouble::kMissing;
}

Result<Index> MemoryStore::read_index() const {
  const MutexLock lock(mutex_);
  if (!owner_) return Index{{}, {check_prepared().error().message}};
  return parse_index(index_, kIndexSource);
}

Status MemoryStore::write_index(const std::vector<IndexEntry>& entries) {
  const MutexLock lock(mutex_);
  if (auto prepared = check_prepared(); !prepared) return prepared;
  index_ = index_text(entries);
  return {};
}

Status MemoryStore::update_index(const IndexEntry& entry) {
  if (auto usable = check_entry(entry, describe()); !usable) return usable;
  const MutexLock lock(mutex_);
  if (auto prepared = check_prepared(); !prepared) return prepared;
  std::vector<IndexEntry> entries = parse_index(index_, kIndexSource).entries;
  if (put_entry(entries, entry)) index_ = index_text(entries);
  return {};
}

Status MemoryStore::extend_index(const std::string& expected, const IndexEntry& entry) {
  if (auto usable = check_entry(entry, describe()); !usable) return usable;
  const MutexLock lock(mutex_);
  if (auto prepared = check_prepared(); !prepared) return prepared;
  std::vector<IndexEntry> entries = parse_index(index_, kIndexSource).entries;
  if (auto extended = extend_entry(entries, expected, entry); !extended) return extended;
  index_ = index_text(entries);
  return {};
}

Status MemoryStore::note_node_product(const std::string& node, const std::string& product) {
  if (auto usable = check_node_note(node, product); !usable) return usable;
  const MutexLock lock(mutex_);
  if (auto prepared = check_prepared(); !prepared) return prepared;
  products_[node] = product;
  return {};
}

Result<std::string> MemoryStore::node_product(const std::string& node) const {
  if (auto usable = check_node_name(node); !usable) return unexpected(usable.error());
  const MutexLock lock(mutex_);
  const auto found = products_.find(node);
  if (found != products_.end()) return found->second;
  return fail(ErrorCode::kNotFound, "no note of node " + node + " in memory");
}

Result<PreparedStore> MemoryStore::prepare(const StoreOwner& owner, bool adopt) {
  const MutexLock lock(mutex_);
  PreparedStore prepared;
  prepared.created = !owner_;
  if (owner_ && *owner_ != owner) {
    if (!adopt) return fail(ErrorCode::kConflict, "the store in memory belongs to somebody else");
    prepared.adopted_from = owner_;
  }
  if (!owner_) index_ = index_text({});
  owner_ = owner;
  return prepared;
}

Result<StoreOwner> MemoryStore::owner() const {
  const MutexLock lock(mutex_);
  if (owner_) return *owner_;
  return fail(ErrorCode::kNotFound, "the store in memory is not prepared");
}

Result<StoreProbe> MemoryStore::probe() {
  const MutexLock lock(mutex_);
  if (auto prepared = check_prepared(); !prepared) return unexpected(prepared.error());
  StoreProbe probe;
  probe.free_bytes = probe.total_bytes = UINT64_MAX;
  probe.now = clock_.wall();
  return probe;
}

Result<std::vector<StoredBlob>> MemoryStore::list() const {
  const MutexLock lock(mutex_);
  if (!owner_) return fail(ErrorCode::kNotFound, "the store in memory is not prepared");
  std::vector<StoredBlob> blobs;
  for (const auto& [digest, blob] : blobs_)
    blobs.push_back({digest, blob.content->size(), blob.modified});
  return blobs;
}

Result<SweepCounts> MemoryStore::remove_incomplete(std::chrono::milliseconds, WallTime) {
  return SweepCounts{};
}

Result<SweepCounts> MemoryStore::remove(const std::vector<std::string>& digests) {
  for (const std::string& digest : digests) {
    if (auto good = archive::check_digest(digest); !good)
      return unexpected(good.error().with("deleting blobs; nothing was deleted"));
  }
  const MutexLock lock(mutex_);
  SweepCounts counts;
  for (const std::string& digest : digests) {
    const auto found = blobs_.find(digest);
    if (found == blobs_.end()) {
      ++counts.missing;
      continue;
    }
    ++counts.removed;
    counts.freed_bytes += found->second.content->size();
    blobs_.erase(found);
  }
  return counts;
}

}  // namespace compilecache::store
