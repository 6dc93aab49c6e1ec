#include "archive/layer/layer_reader.hpp"

// For ZSTD_getFrameHeader, which returns the size of the window before memory is allocated for it.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>

#include "archive/layer/seek_table.hpp"
#include "archive/layer/stored_frame.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

constexpr size_t kReadBytes = 1U << 20;
constexpr uint64_t kMaxTableBytes = 8ULL << 20;
constexpr std::chrono::milliseconds kLongestWait{50};

// Reads a blob from beginning to end in large pieces and hashes it on the way, if wanted.
class SequentialReader {
 public:
  SequentialReader(const BlobReader& blob, bool hash) : blob_(blob), chunk_(kReadBytes) {
    if (hash) hash_.emplace();
  }

  // kCorrupt: the blob is shorter.
  Status read(std::span<uint8_t> out) {
    while (!out.empty()) {
      if (begin_ == end_ && out.size() >= kReadBytes) {
        const auto piece = out.first(kReadBytes);
        auto count = next(piece);
        if (!count) return unexpected(count.error());
        if (hash_) hash_->update(piece.first(*count));
        if (*count < piece.size()) return fail(ErrorCode::kCorrupt, "it ends too early");
        out = out.subspan(kReadBytes);
        continue;
      }
      if (begin_ == end_) {
        auto count = next(chunk_);
        if (!count) return unexpected(count.error());
        if (*count == 0) return fail(ErrorCode::kCorrupt, "it ends too early");
        begin_ = 0;
        end_ = *count;
        if (hash_) hash_->update(std::span<const uint8_t>(chunk_).first(end_));
      }
      const size_t count = std::min(out.size(), end_ - begin_);
      std::memcpy(out.data(), chunk_.data() + begin_, count);
      begin_ += count;
      out = out.subspan(count);
    }
    return {};
  }

  [[nodiscard]] bool hashes() const { return hash_.has_value(); }
  // The digest of the whole blob, including the bytes after the last read().
  Result<std::string> digest() {
    for (;;) {
      auto count = next(chunk_);
      if (!count) return unexpected(count.error());
      if (*count == 0) return "sha256:" + hash_->finish_hex();
      hash_->update(std::span<const uint8_t>(chunk_).first(*count));
    }
  }

 private:
  Result<size_t> next(std::span<uint8_t> bytes) {
    auto count = blob_.read_at(bytes, offset_);
    if (count) offset_ += *count;
    return count;
  }

  const BlobReader& blob_;
  uint64_t offset_ = 0;
  std::vector<uint8_t> chunk_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::optional<Sha256> hash_;
};

tl::unexpected<Error> corrupt(const std::string& what) { return fail(ErrorCode::kCorrupt, what); }

// The frame must be exactly one zstd frame of exactly this many plain bytes, with a window and
// memory within the limits.
Status decode(const BufferPool::Buffer& compressed, BufferPool::Buffer& plain,
              const Limits& limits) {
  ZSTD_frameHeader header;
  if (ZSTD_getFrameHeader(&header, compressed.data(), compressed.size()) != 0 ||
      header.frameType != ZSTD_frame) {
    return corrupt("not a zstd frame");
  }
  if (header.windowSize > (uint64_t{1} << limits.max_window_log)) {
    return fail(ErrorCode::kTooLarge,
                "a zstd window of " + std::to_string(header.windowSize) + " bytes");
  }
  if (header.dictID != 0) return corrupt("a zstd frame with a dictionary");
  if (ZSTD_findFrameCompressedSize(compressed.data(), compressed.size()) != compressed.size())
    return corrupt("a zstd frame of another length than the seek table says");
  thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                                  &ZSTD_freeDCtx);
  if (context == nullptr)
    return fail(ErrorCode::kInternal, "decoding a frame: there is no memory for it");
  const size_t size = ZSTD_decompressDCtx(context.get(), plain.data(), plain.size(),
                                          compressed.data(), compressed.size());
  if (ZSTD_isError(size) != 0) return corrupt(std::string("decoding: ") + ZSTD_getErrorName(size));
  if (size != plain.size()) return corrupt("a frame has fewer bytes than the seek table says");
  return {};
}

class LayerReader {
 public:
  LayerReader(ReadSession& session, const Descriptor& layer, const BlobReader& blob,
              LayerSink& sink)
      : session_(session),
        layer_(layer),
        blob_(blob),
        reader_(blob, layer.size <= session.hash_layers_up_to),
        sink_(sink),
        parser_(sink, max_tar_entries(session.limits)) {}

  ~LayerReader() {
    // Frames that are still being decoded refer only to the session, so they can be dropped here.
    pending_.clear();
  }

  Status run() {
    if (auto table = read_table(); !table) return table;
    while (next_ < table_.frames.size() || !pending_.empty()) {
      if (auto fine = session_.check(); !fine) return fine;
      const uint64_t seen = session_.activity.count();
      bool idle = true;
      if (may_read()) {
        if (auto read = read_frame(); !read) return read;
        idle = false;
      }
      if (!pending_.empty() && pending_.front()->ready) {
        if (auto parsed = parse_frame(); !parsed) return parsed;
        idle = false;
      }
      if (idle) session_.activity.wait(seen, kLongestWait);
    }
    if (auto ended = parser_.finish(); !ended) return ended;
    return check_end();
  }

  // Whether a failure was caused by damage of the blob.
  bool damaged() {
    auto digest = reader_.hashes() ? reader_.digest() : digest_from_start();
    return digest && *digest != layer_.digest;
  }

 private:
  struct DecodedFrame {
    BufferPool::Shared bytes;  // what `pieces` are parts of
    std::vector<std::span<const uint8_t>> pieces;
    std::atomic<bool> ready = false;
  };

  // Asks the checkpoint, as it is slow.
  Result<std::string> digest_from_start() {
    Sha256 hash;
    std::vector<uint8_t> chunk(kReadBytes);
    for (uint64_t offset = 0;; offset += chunk.size()) {
      if (session_.checkpoint && !session_.checkpoint(session_.progress))
        return fail(ErrorCode::kCancelled, "hashing layer " + layer_.digest);
      auto count = blob_.read_at(chunk, offset);
      if (!count) return unexpected(count.error());
      hash.update(std::span<const uint8_t>(chunk).first(*count));
      if (*count < chunk.size()) return "sha256:" + hash.finish_hex();
    }
  }

  Status read_table() {
    std::array<uint8_t, kSeekFooterBytes> footer{};
    if (layer_.size < footer.size()) return corrupt("too short");
    auto count = blob_.read_at(footer, layer_.size - footer.size());
    if (!count) return unexpected(count.error());
    auto bytes = seek_table_bytes(std::span(footer).first(*count));
    if (!bytes) return unexpected(bytes.error());
    if (*bytes > std::min(layer_.size, kMaxTableBytes)) return corrupt("seek table: too long");
    table_bytes_.resize(*bytes);
    count = blob_.read_at(table_bytes_, layer_.size - *bytes);
    if (!count) return unexpected(count.error());
    auto table =
        parse_seek_table(std::span(table_bytes_).first(*count), layer_.size, session_.limits);
    if (!table) return unexpected(table.error());
    table_ = std::move(*table);
    return check_totals();
  }

  Status check_totals() const {
    const uint64_t plain = table_.plain_bytes();
    if (plain > session_.limits.max_plain_bytes ||
        (plain > kRatioCountsFrom && plain / session_.limits.max_ratio > layer_.size)) {
      return fail(ErrorCode::kTooLarge, std::to_string(layer_.size) + " bytes that unpack to " +
                                            std::to_string(plain) + ", more than is accepted");
    }
    return {};
  }

  [[nodiscard]] bool may_read() const {
    if (next_ == table_.frames.size()) return false;
    const Frame& frame = table_.frames[next_];
    return session_.buffers.fits(uint64_t{frame.compressed} + frame.plain);
  }

  Status read_frame() {
    const Frame frame = table_.frames[next_];
    auto compressed = session_.buffers.take(frame.compressed);
    if (auto read = reader_.read(compressed->span()); !read) return read;
    session_.progress.compressed_bytes += frame.compressed;
    auto decoded = std::make_shared<DecodedFrame>();
    pending_.push_back(decoded);
    const size_t index = next_++;
    if (auto stored = stored_bytes(compressed->span(), frame.plain)) {
      decoded->bytes = std::move(compressed);
      decoded->pieces = std::move(*stored);
      decoded->ready = true;
      return {};
    }
    decoded->bytes = session_.buffers.take(frame.plain);
    decoded->pieces = {decoded->bytes->span()};
    ReadSession& session = session_;
    session_.pool.post([&session, compressed, decoded, index] {
      if (session.failure.failed()) return;
      session.guarded([&]() -> Status {
        auto done = decode(*compressed, *decoded->bytes, session.limits);
        if (!done) return unexpected(done.error().with("frame " + std::to_string(index)));
        return done;
      });
      decoded->ready = true;
      session.activity.notify();
    });
    return {};
  }

  Status parse_frame() {
    if (auto failed = session_.failure.status(); !failed) return failed;
    const auto decoded = std::move(pending_.front());
    pending_.pop_front();
    for (const auto piece : decoded->pieces) {
      session_.progress.plain_bytes += piece.size();
      if (auto parsed = parser_.feed(piece, decoded->bytes); !parsed) return parsed;
    }
    sink_.end_frame();
    return {};
  }

  Status check_end() {
    std::vector<uint8_t> table(table_bytes_.size());
    if (auto read = reader_.read(table); !read) return read;
    session_.progress.compressed_bytes += table.size();
    if (!reader_.hashes()) {
      // Errors must be known before the next layer begins, so that they name this one.
      if (auto done = session_.drain(); !done) return done;
      if (table == table_bytes_) return {};
    } else {
      auto digest = reader_.digest();
      if (!digest) return unexpected(digest.error());
      if (table == table_bytes_ && *digest == layer_.digest) return {};
    }
    return corrupt("its bytes are not what its digest promises");
  }

  ReadSession& session_;
  const Descriptor& layer_;
  const BlobReader& blob_;
  SequentialReader reader_;
  LayerSink& sink_;
  TarParser parser_;
  std::vector<uint8_t> table_bytes_;
  SeekTable table_;
  size_t next_ = 0;
  std::deque<std::shared_ptr<DecodedFrame>> pending_;
};

}  // namespace

Status ReadSession::check() {
  if (auto failed = failure.status(); !failed) return failed;
  if (checkpoint && !checkpoint(progress))
    return fail(ErrorCode::kCancelled, "reading the archive: given up by the caller");
  return {};
}

Status ReadSession::check_anywhere() {
  return std::this_thread::get_id() == thread_ ? check() : failure.status();
}

Status ReadSession::drain() {
  while (!pool.drain_for(kLongestWait)) {
    auto fine = check();
    if (fine) continue;
    failure.set(fine.error());
    pool.drain();
    return fine;
  }
  return failure.status();
}

void ReadSession::guarded(const std::function<Status()>& work) {
  try {
    if (auto done = work(); !done) failure.set(done.error());
  } catch (const std::exception& problem) {
    failure.set({ErrorCode::kInternal, std::string("reading the archive: ") + problem.what()});
  }
}

Status read_layer(ReadSession& session, const BlobStore& store, const Descriptor& layer,
                  LayerSink& sink) {
  const std::string context = "layer " + layer.digest + " in " + store.describe();
  const auto blob = open_blob(store, layer);
  if (!blob) return unexpected(blob.error());
  if ((*blob)->size() != layer.size) {
    return unexpected(Error{ErrorCode::kCorrupt,
                            context + " should have " + std::to_string(layer.size) +
                                " bytes and has " + std::to_string((*blob)->size()),
                            layer.digest});
  }
  (*blob)->expect_sequential_reads();

  LayerReader reader(session, layer, **blob, sink);
  auto done = reader.run();
  if (done) return done;
  session.failure.set(done.error());  // so that the tasks under way stop
  Error error = done.error();
  const bool structural = error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kTooLarge ||
                          error.code == ErrorCode::kInvalid;
  if (structural && reader.damaged()) {
    error = {ErrorCode::kCorrupt, "its bytes are not what its digest promises (" + error.message +
                                      "); the archive is lost, save a new one"};
  }
  return unexpected(error.with(context).about(layer.digest));
}

}  // namespace compilecache::archive
