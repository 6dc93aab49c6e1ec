#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "archive/layer/large_bytes.hpp"
#include "archive/layer/shared_state.hpp"
#include "base/mutex.hpp"

namespace compilecache::archive {

// A bounded pool of memory for frames. A buffer returns to the pool when its last holder releases
// it, and is reused. Idle buffers count against the bound, and are freed when others need their
// room.
//
// Thread-safe; must outlive its buffers.
class BufferPool {
 public:
  class Buffer {
   public:
    explicit Buffer(size_t capacity) : bytes_(make_large_bytes(capacity)), capacity_(capacity) {}
    [[nodiscard]] uint8_t* data() { return bytes_.get(); }
    [[nodiscard]] const uint8_t* data() const { return bytes_.get(); }
    [[nodiscard]] size_t size() const { return size_; }
    [[nodiscard]] size_t capacity() const { return capacity_; }
    [[nodiscard]] std::span<uint8_t> span() { return {data(), size_}; }
    void set_size(size_t size) { size_ = size; }

   private:
    LargeBytes bytes_;
    size_t capacity_;
    size_t size_ = 0;
  };
  using Shared = std::shared_ptr<Buffer>;

  // `activity` is notified of every buffer that is returned.
  BufferPool(uint64_t limit, Activity& activity) : limit_(limit), activity_(activity) {}

  // Whether `size` more bytes fit; always true when nothing is in use, so that one frame that is
  // larger than the bound passes.
  [[nodiscard]] bool fits(uint64_t size) const;
  // Returns a buffer of this size, whether it fits or not.
  Shared take(size_t size);
  // The memory that the pool holds: buffers in use and idle ones.
  [[nodiscard]] uint64_t held_bytes() const;

 private:
  void give_back(Buffer* buffer);
  // The caller must not free the buffers while it holds the lock.
  std::unique_ptr<Buffer> take_spare(size_t size) REQUIRES(mutex_);
  std::vector<std::unique_ptr<Buffer>> spares_in_the_way() REQUIRES(mutex_);

  const uint64_t limit_;
  Activity& activity_;
  mutable Mutex mutex_;
  uint64_t used_ GUARDED_BY(mutex_) = 0;  // capacities of the buffers in use
  uint64_t idle_ GUARDED_BY(mutex_) = 0;  // and of the spare ones
  std::vector<std::unique_ptr<Buffer>> spare_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::archive
