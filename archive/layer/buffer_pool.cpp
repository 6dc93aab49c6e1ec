#include "archive/layer/buffer_pool.hpp"

#include <utility>

namespace compilecache::archive {

bool BufferPool::fits(uint64_t size) const {
  const MutexLock lock(mutex_);
  return used_ == 0 || used_ + size <= limit_;
}

uint64_t BufferPool::held_bytes() const {
  const MutexLock lock(mutex_);
  return used_ + idle_;
}

BufferPool::Shared BufferPool::take(size_t size) {
  std::unique_ptr<Buffer> buffer;
  {
    // Freed before a new buffer is made, and without the lock, as unmapping is slow.
    std::vector<std::unique_ptr<Buffer>> in_the_way;
    const MutexLock lock(mutex_);
    buffer = take_spare(size);
    used_ += buffer ? buffer->capacity() : size;
    in_the_way = spares_in_the_way();
  }
  if (!buffer) buffer = std::make_unique<Buffer>(size);
  buffer->set_size(size);
  return {buffer.release(), [this](Buffer* done) { give_back(done); }};
}

// Takes the spare buffer that fits best, as compressed and plain frames differ much in size. A
// buffer counts with its whole capacity, so it must not be much larger than needed, nor exceed the
// bound.
std::unique_ptr<BufferPool::Buffer> BufferPool::take_spare(size_t size) {
  auto best = spare_.end();
  for (auto it = spare_.begin(); it != spare_.end(); ++it) {
    if ((*it)->capacity() < size || (*it)->capacity() / 4 > size) continue;
    if (best == spare_.end() || (*it)->capacity() < (*best)->capacity()) best = it;
  }
  if (best == spare_.end() || used_ + (*best)->capacity() > limit_) return nullptr;
  auto buffer = std::move(*best);
  spare_.erase(best);
  idle_ -= buffer->capacity();
  return buffer;
}

std::vector<std::unique_ptr<BufferPool::Buffer>> BufferPool::spares_in_the_way() {
  std::vector<std::unique_ptr<Buffer>> gone;
  while (!spare_.empty() && used_ + idle_ > limit_) {
    idle_ -= spare_.back()->capacity();
    gone.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  return gone;
}

void BufferPool::give_back(Buffer* buffer) {
  {
    std::unique_ptr<Buffer> owned(buffer);
    const MutexLock lock(mutex_);
    used_ -= owned->capacity();
    if (used_ + idle_ + owned->capacity() <= limit_) {
      idle_ += owned->capacity();
      spare_.push_back(std::move(owned));
    }
  }
  activity_.notify();
}

}  // namespace compilecache::archive
