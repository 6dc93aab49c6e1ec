#include "archive/extract/content_queue.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/sha256_pair.hpp"

namespace compilecache::archive {
namespace {

// A task with this many bytes or pieces is worth posting to the pool.
constexpr uint64_t kTaskBytes = 512U << 10;
constexpr size_t kTaskPieces = 64;
// A slice is hashed, then written while it is still in the processor's cache.
constexpr size_t kSliceBytes = 256U << 10;
constexpr size_t kHashBlock = 64;

struct Piece {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

// Returns how many bytes of two lanes, which have this many left, to hash together: whole blocks,
// and for a lane that ends there also its rest.
std::array<size_t, 2> common(size_t first, size_t second) {
  const size_t both = std::min({first, second, kSliceBytes});
  const size_t blocks = both / kHashBlock * kHashBlock;
  return {first == both ? both : blocks, second == both ? both : blocks};
}

}  // namespace

struct ContentQueue::Content {
  explicit Content(std::unique_ptr<OutputFile> to) : file(std::move(to)) {}

  const std::unique_ptr<OutputFile> file;
  // The queue's lock guards all members below.
  std::vector<Piece> pieces;
  size_t taken = 0;    // of the pieces
  bool known = false;  // it is in ready_, or a thread works on it
};

// The work of one thread, until nothing is ready. Another thread may already have done the work for
// which this task was posted.
class ContentQueue::Worker {
 public:
  explicit Worker(ContentQueue& queue) : queue_(queue), session_(queue.session_) {}

  void run() {
    while (fill()) {
      if (!session_.failure.failed()) hash();
      for (Lane& lane : lanes_) {
        if (lane.content) proceed(lane);
      }
    }
  }

 private:
  struct Lane {
    std::shared_ptr<Content> content;  // null: nothing to do
    Piece piece;
    size_t hashed = 0;
    size_t written = 0;

    [[nodiscard]] std::span<const uint8_t> left() const { return piece.bytes.subspan(hashed); }
  };

  bool fill() {
    const MutexLock lock(queue_.mutex_);
    for (Lane& lane : lanes_) {
      if (lane.content || queue_.ready_.empty()) continue;
      auto content = std::move(queue_.ready_.front());
      queue_.ready_.pop_front();
      Piece piece = std::move(content->pieces[content->taken++]);
      lane = {std::move(content), std::move(piece)};
    }
    return lanes_[0].content || lanes_[1].content;
  }

  void hash() {
    auto& [first, second] = lanes_;
    if (first.content && second.content) {
      const auto counts = common(first.left().size(), second.left().size());
      update_pair(first.content->file->hash(), first.left().first(counts[0]),
                  second.content->file->hash(), second.left().first(counts[1]));
      first.hashed += counts[0];
      second.hashed += counts[1];
    } else {
      Lane& only = first.content ? first : second;
      const auto slice = only.left().first(std::min(only.left().size(), kSliceBytes));
      only.content->file->hash().update(slice);
      only.hashed += slice.size();
    }
  }

  // Writes a slice that is large enough, and releases a piece that is done.
  void proceed(Lane& lane) {
    const bool done = lane.hashed == lane.piece.bytes.size();
    if (!session_.failure.failed()) {
      if (!done && lane.hashed - lane.written < kSliceBytes) return;
      const auto bytes = lane.piece.bytes.subspan(lane.written, lane.hashed - lane.written);
      session_.guarded([&] { return lane.content->file->take(bytes); });
      lane.written = lane.hashed;
      if (!done) return;
    }
    const Lane gone = std::exchange(lane, {});  // its buffer is given back without the lock
    const MutexLock lock(queue_.mutex_);
    Content& content = *gone.content;
    if (content.taken < content.pieces.size()) {
      queue_.ready_.push_back(gone.content);
    } else {
      content.pieces.clear();
      content.taken = 0;
      content.known = false;
    }
  }

  ContentQueue& queue_;
  ReadSession& session_;
  std::array<Lane, 2> lanes_;
};

std::shared_ptr<ContentQueue::Content> ContentQueue::begin(std::unique_ptr<OutputFile> file) {
  return std::make_shared<Content>(std::move(file));
}

void ContentQueue::add(const std::shared_ptr<Content>& content, std::span<const uint8_t> bytes,
                       std::shared_ptr<const void> owner) {
  {
    const MutexLock lock(mutex_);
    content->pieces.push_back({bytes, std::move(owner)});
    if (!std::exchange(content->known, true)) ready_.push_back(content);
  }
  waiting_bytes_ += bytes.size();
  if (++waiting_pieces_ >= kTaskPieces || waiting_bytes_ >= kTaskBytes) flush();
}

void ContentQueue::flush() {
  if (waiting_pieces_ == 0) return;
  waiting_bytes_ = waiting_pieces_ = 0;
  session_.pool.post_urgent([this] { Worker(*this).run(); });
}

}  // namespace compilecache::archive
