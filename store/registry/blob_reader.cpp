#include "store/registry/blob_reader.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "archive/format.hpp"
#include "base/mutex.hpp"
#include "store/registry/blob_range.hpp"

namespace compilecache::store {
namespace {

using archive::Descriptor;

// A layer's seek table takes a dozen bytes for a frame of some hundred kB or more.
constexpr uint64_t kTailBytes = 64U << 10;
// Up to this size a layer is fetched in one request: one more would cost more than waiting for its
// last byte before the first is decoded.
constexpr uint64_t kSmallLayerBytes = 4 * kTailBytes;
// Larger reads at another place begin a new stream there, as the rest will be read too.
constexpr size_t kLargeRead = 64U << 10;

Error about_blob(const Refusal& refusal, const std::string& digest) {
  return refusal.error.about(digest);
}

class StreamedBlob : public archive::BlobReader {
 public:
  StreamedBlob(RegistryClient& client, std::string digest, uint64_t size)
      : client_(client), digest_(std::move(digest)), size_(size) {}

  [[nodiscard]] uint64_t size() const override { return size_; }

  void expect_sequential_reads() override {
    const MutexLock lock(mutex_);
    sequential_ = true;
  }

  void set_tail(std::string tail) { tail_ = std::move(tail); }
  void set_stream(AnswerPtr stream) {
    const MutexLock lock(mutex_);
    stream_ = std::move(stream);
  }

  [[nodiscard]] Result<size_t> read_at(std::span<uint8_t> bytes, uint64_t offset) const override {
    if (offset >= size_) return 0;
    bytes = bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), size_ - offset)));
    if (bytes.empty()) return 0;
    {
      const MutexLock lock(mutex_);
      if (stream_ != nullptr && position_ == offset) return read_stream(bytes);
      if (const uint64_t tail_at = size_ - tail_.size(); offset >= tail_at) {
        std::memcpy(bytes.data(), tail_.data() + (offset - tail_at), bytes.size());
        return bytes.size();
      }
      if (sequential_ && (offset == 0 || bytes.size() >= kLargeRead)) {
        if (auto begun = begin_stream(offset); !begun) return unexpected(begun.error());
        return read_stream(bytes);
      }
    }
    return read_range(bytes, offset);
  }

 private:
  Status begin_stream(uint64_t offset) const REQUIRES(mutex_) {
    stream_ = nullptr;
    auto begun = get_blob(client_, digest_, offset, std::nullopt);
    if (!begun) return unexpected(about_blob(begun.error(), digest_));
    if (begun->answer == nullptr) return cut_off();
    stream_ = std::move(begun->answer);
    position_ = offset;
    return {};
  }

  Result<size_t> read_stream(std::span<uint8_t> bytes) const REQUIRES(mutex_) {
    size_t filled = 0;
    while (filled < bytes.size()) {
      const auto count = stream_->read(bytes.subspan(filled));
      if (count && *count > 0) {
        filled += *count;
        position_ += *count;
        continue;
      }
      if (std::exchange(continued_, true)) {
        stream_ = nullptr;
        if (count) return unexpected(cut_off().error());
        return unexpected(
            no_answer(count.error(), "reading blob " + digest_ + " in " + client_.name()).error);
      }
      if (auto again = begin_stream(position_); !again) return unexpected(again.error());
    }
    if (position_ == size_) {
      // Its end has come too: the connection is free for others.
      finish(*stream_);
      stream_ = nullptr;
    }
    return filled;
  }

  Result<size_t> read_range(std::span<uint8_t> bytes, uint64_t offset) const {
    size_t filled = 0;
    for (int part = 0; part < 2; ++part) {
      auto answer = get_blob(client_, digest_, offset + filled, offset + bytes.size());
      if (!answer) return unexpected(about_blob(answer.error(), digest_));
      if (answer->answer == nullptr) break;
      while (filled < bytes.size()) {
        const auto count = answer->answer->read(bytes.subspan(filled));
        if (!count || *count == 0) break;
        filled += *count;
      }
      if (filled < bytes.size()) continue;
      if (answer->answer->status() == 206) finish(*answer->answer);
      return filled;
    }
    return unexpected(cut_off().error());
  }

  // Twice: once may happen.
  [[nodiscard]] Status cut_off() const {
    Error error{ErrorCode::kUnavailable, "reading blob " + digest_ + " in " + client_.name() +
                                             ": the registry's answers end too early; see its log"};
    error.reason = kReasonUnreachable;
    return unexpected(error);
  }

  RegistryClient& client_;
  const std::string digest_;
  const uint64_t size_;
  std::string tail_;  // the blob's last bytes
  mutable Mutex mutex_;
  bool sequential_ GUARDED_BY(mutex_) = false;
  mutable AnswerPtr stream_ GUARDED_BY(mutex_);
  mutable uint64_t position_ GUARDED_BY(mutex_) = 0;  // of its next byte
  mutable bool continued_ GUARDED_BY(mutex_) = false;
};

using Opened = Result<std::unique_ptr<archive::BlobReader>>;

// Its size is what the descriptor says unless the server says another.
Opened open_by_its_end(RegistryClient& client, const Descriptor& blob) {
  const uint64_t first = blob.size - kTailBytes;
  for (int part = 0; part < 2; ++part) {
    auto end = get_blob(client, blob.digest, first, blob.size);
    if (!end) return unexpected(about_blob(end.error(), blob.digest));
    if (end->answer == nullptr || end->total.value_or(blob.size) != blob.size) break;
    std::string tail(kTailBytes, '\0');
    size_t filled = 0;
    while (filled < tail.size()) {
      const auto count = end->answer->read(
          {reinterpret_cast<uint8_t*>(tail.data()) + filled, tail.size() - filled});
      if (!count || *count == 0) break;
      filled += *count;
    }
    if (filled < tail.size()) continue;
    finish(*end->answer);
    auto reader = std::make_unique<StreamedBlob>(client, blob.digest, blob.size);
    reader->set_tail(std::move(tail));
    return reader;
  }
  auto size = registry_blob_size(client, blob.digest);
  if (!size) return unexpected(size.error());
  return std::make_unique<StreamedBlob>(client, blob.digest, *size);
}

Opened open_from_its_beginning(RegistryClient& client, const Descriptor& blob) {
  auto begun = get_blob(client, blob.digest, 0, std::nullopt);
  if (!begun) return unexpected(about_blob(begun.error(), blob.digest));
  uint64_t size = begun->total.value_or(blob.size);
  if (!begun->total && size == 0) {
    auto told = registry_blob_size(client, blob.digest);
    if (!told) return unexpected(told.error());
    size = *told;
  }
  auto reader = std::make_unique<StreamedBlob>(client, blob.digest, size);
  if (size > 0) reader->set_stream(std::move(begun->answer));
  return reader;
}

Opened open_small_layer(RegistryClient& client, const Descriptor& blob) {
  auto reader = open_from_its_beginning(client, blob);
  if (!reader || (*reader)->size() > kSmallLayerBytes) return reader;
  std::string content((*reader)->size(), '\0');
  const auto read =
      (*reader)->read_at({reinterpret_cast<uint8_t*>(content.data()), content.size()}, 0);
  if (!read) return unexpected(read.error());
  return archive::read_from_memory(std::move(content));
}

}  // namespace

Result<uint64_t> registry_blob_size(RegistryClient& client, const std::string& digest) {
  auto head = client.send(
      {.method = "HEAD", .target = "blobs/" + digest, .doing = "looking for blob " + digest});
  if (!head) return unexpected(about_blob(head.error(), digest));
  const auto size = content_length(**head);
  finish(**head);
  if (size) return *size;
  // Some leave it out of the answer to a HEAD.
  auto first = get_blob(client, digest, 0, 1);
  if (!first) return unexpected(about_blob(first.error(), digest));
  if (first->answer == nullptr) return first->total.value_or(0);
  if (first->total) return *first->total;
  Error error{ErrorCode::kUnavailable, "reading blob " + digest + " in " + client.name() +
                                           ": the registry does not say how long it is"};
  error.reason = kReasonUnreachable;
  return unexpected(error);
}

Result<std::unique_ptr<archive::BlobReader>> open_registry_blob(RegistryClient& client,
                                                                const Descriptor& blob) {
  if (blob.media_type != archive::kLayerMediaType) return open_from_its_beginning(client, blob);
  if (blob.size <= kSmallLayerBytes) return open_small_layer(client, blob);
  return open_by_its_end(client, blob);
}

}  // namespace compilecache::store
