#include "operator/pending_reviews.hpp"

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

namespace compilecache::controller {

namespace {

// A CompileCache is seen by a watch; looking into its store costs nothing.
constexpr std::chrono::milliseconds kLookEvery{20};

// How many of the keys, "namespace/name", have the namespace of this one.
template <typename Value>
size_t of_its_namespace(const std::map<std::string, Value>& by_key, const std::string& key) {
  const std::string prefix = key.substr(0, key.find('/') + 1);
  size_t count = 0;
  for (auto each = by_key.lower_bound(prefix);
       each != by_key.end() && each->first.starts_with(prefix); ++each) {
    ++count;
  }
  return count;
}

}  // namespace

struct PendingReviews::Impl {
  struct Review {
    Monotonic until;
    Resume resume;
  };

  Impl(IsDecided its_decided, const Clock& its_clock)
      : is_decided(std::move(its_decided)), clock(its_clock) {}

  void run();
  // Those that are decided, and those whose time is up.
  std::vector<Resume> take_finished() REQUIRES(mutex);
  [[nodiscard]] bool has_place(const std::string& cache) const REQUIRES(mutex);

  const IsDecided is_decided;
  const Clock& clock;
  Mutex mutex;
  CondVar wake;
  bool running GUARDED_BY(mutex) = false;
  std::map<std::string, Review> held GUARDED_BY(mutex);       // by the CompileCache's key
  std::map<std::string, Monotonic> paused GUARDED_BY(mutex);  // until when
  std::thread thread;
};

std::vector<PendingReviews::Resume> PendingReviews::Impl::take_finished() {
  const Monotonic now = clock.monotonic();
  std::vector<Resume> finished;
  for (auto each = held.begin(); each != held.end();) {
    const bool decided = is_decided(each->first);
    if (!decided && now < each->second.until) {
      ++each;
      continue;
    }
    if (!decided) paused[each->first] = now + kPause;
    finished.push_back(std::move(each->second.resume));
    each = held.erase(each);
  }
  return finished;
}

bool PendingReviews::Impl::has_place(const std::string& cache) const {
  return held.size() < kMost && !held.contains(cache) &&
         of_its_namespace(held, cache) < kMostOfANamespace && paused.size() < kMostPaused &&
         !paused.contains(cache) && of_its_namespace(paused, cache) < kMostPausedOfANamespace;
}

void PendingReviews::Impl::run() {
  MutexLock lock(mutex);
  while (running) {
    if (held.empty()) {
      wake.wait(mutex, [&]() REQUIRES(mutex) { return !running || !held.empty(); });
      continue;
    }
    const std::vector<Resume> finished = take_finished();
    if (finished.empty()) {
      wake.wait_for(mutex, kLookEvery, [&]() REQUIRES(mutex) { return !running; });
      continue;
    }
    lock.unlock();
    for (const Resume& resume : finished) resume();
    lock.lock();
  }
}

PendingReviews::PendingReviews(IsDecided is_decided, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(is_decided), clock)) {}

PendingReviews::~PendingReviews() { stop(); }

void PendingReviews::start() {
  const MutexLock lock(impl_->mutex);
  impl_->running = true;
  impl_->thread = std::thread([this] { impl_->run(); });
}

void PendingReviews::stop() {
  std::map<std::string, Impl::Review> left;
  {
    const MutexLock lock(impl_->mutex);
    impl_->running = false;
    left.swap(impl_->held);
  }
  impl_->wake.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
  for (const auto& [cache, review] : left) review.resume();
}

bool PendingReviews::hold(const std::string& cache, Monotonic until, Resume resume) {
  {
    const MutexLock lock(impl_->mutex);
    const Monotonic now = impl_->clock.monotonic();
    std::erase_if(impl_->paused, [&](const auto& item) { return item.second <= now; });
    if (!impl_->running || now >= until || !impl_->has_place(cache)) return false;
    impl_->held.emplace(cache, Impl::Review{until, std::move(resume)});
  }
  impl_->wake.notify_all();
  return true;
}

}  // namespace compilecache::controller
