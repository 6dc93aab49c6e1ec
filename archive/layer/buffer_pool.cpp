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
    // Freed before another is made, and not under the lock: the kernel takes its time.
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

// The one that fits best: compressed and plain frames differ much in size. What is larger than it
// need be counts as what it is, so it must not be much larger, nor more than there is room for.
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
