#include "archive/buffer_pool.hpp"

#include <algorithm>

namespace compilecache::archive {

bool BufferPool::fits(uint64_t size) const {
  const std::lock_guard lock(mutex_);
  return used_ == 0 || used_ + size <= limit_;
}

BufferPool::Shared BufferPool::take(size_t size) {
  std::unique_ptr<Buffer> buffer;
  {
    const std::lock_guard lock(mutex_);
    used_ += size;
    // The spare one that fits best: compressed and plain frames differ much in size.
    auto best = spare_.end();
    for (auto it = spare_.begin(); it != spare_.end(); ++it) {
      if ((*it)->capacity() < size) continue;
      if (best == spare_.end() || (*it)->capacity() < (*best)->capacity()) best = it;
    }
    if (best != spare_.end() && (*best)->capacity() / 4 <= size) {
      buffer = std::move(*best);
      spare_.erase(best);
    }
  }
  if (!buffer) buffer = std::make_unique<Buffer>(size);
  buffer->set_size(size);
  return {buffer.release(), [this, size](Buffer* done) { give_back(done, size); }};
}

void BufferPool::give_back(Buffer* buffer, size_t counted) {
  {
    std::unique_ptr<Buffer> owned(buffer);
    const std::lock_guard lock(mutex_);
    used_ -= counted;
    uint64_t kept = owned->capacity();
    for (const auto& spare : spare_) kept += spare->capacity();
    if (kept + used_ <= limit_) spare_.push_back(std::move(owned));
  }
  activity_.notify();
}

}  // namespace compilecache::archive
