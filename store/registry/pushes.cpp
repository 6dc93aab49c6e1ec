#include "store/registry/pushes.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "store/registry/upload.hpp"

namespace compilecache::store {

void Pushes::begin(const std::string& digest, std::shared_ptr<SpoolFile> file) {
  wait();
  // Lets go of the file when it is done: others may want its room.
  auto push = [this, digest, held = std::move(file)]() mutable {
    const auto content = std::move(held);
    return push_blob(client_, digest, *content);
  };
  Push begun;
  try {
    begun = std::async(std::launch::async, push).share();
  } catch (const std::system_error&) {
    begun = std::async(std::launch::deferred, std::move(push)).share();
    begun.wait();
  }
  const MutexLock lock(mutex_);
  pushes_[digest] = std::move(begun);
}

bool Pushes::wait() const {
  std::vector<Push> under_way;
  {
    const MutexLock lock(mutex_);
    for (const auto& push : pushes_) under_way.push_back(push.second);
  }
  bool any = false;
  for (const Push& push : under_way) {
    any = any || push.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    push.wait();
  }
  return any;
}

void Pushes::wait_for(const std::string& digest) const {
  Push under_way;
  {
    const MutexLock lock(mutex_);
    const auto push = pushes_.find(digest);
    if (push != pushes_.end()) under_way = push->second;
  }
  if (under_way.valid()) under_way.wait();
}

Result<Pushes::Digests> Pushes::finish(const Digests& digests) {
  wait();
  Status all;
  Digests pushed;
  const MutexLock lock(mutex_);
  for (const std::string& digest : digests) {
    const auto push = pushes_.find(digest);
    if (push == pushes_.end()) continue;
    if (all) all = push->second.get();
    pushes_.erase(push);
    pushed.push_back(digest);
  }
  if (!all) return unexpected(all.error());
  return pushed;
}

Result<Pushes::Digests> Pushes::finish_all() {
  Digests digests;
  {
    const MutexLock lock(mutex_);
    for (const auto& push : pushes_) digests.push_back(push.first);
  }
  return finish(digests);
}

void Pushes::forget() {
  wait();
  const MutexLock lock(mutex_);
  pushes_.clear();
}

}  // namespace compilecache::store
