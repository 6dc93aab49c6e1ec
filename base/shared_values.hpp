#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "base/mutex.hpp"

// Keeps equal values once, however many objects hold them: what all pods of a workload have in
// common.
//
//   SharedValues<Owner> owners;
//   std::shared_ptr<const Owner> owner = owners.get(parsed_owner);
//
// A value that nobody holds any more is dropped after some new ones have come. Where Less also
// compares a T with other types (is_transparent), find_or_make() takes those. Thread-safe.

namespace compilecache {

template <typename T, typename Less = std::less<T>>
class SharedValues {
 public:
  using Ptr = std::shared_ptr<const T>;

  Ptr get(T value) {
    return find_or_make(value, [&] { return std::move(value); });
  }

  // The value that is neither less nor greater than `probe`; where there is none, what make()
  // returns.
  template <typename Probe, typename Make>
  Ptr find_or_make(const Probe& probe, Make make) {
    const MutexLock lock(mutex_);
    if (const auto found = values_.find(probe); found != values_.end()) return *found;
    if (values_.size() >= limit_) drop_unused();
    return *values_.insert(std::make_shared<const T>(make())).first;
  }

  [[nodiscard]] size_t size() const {
    const MutexLock lock(mutex_);
    return values_.size();
  }

 private:
  struct ByValue {
    using is_transparent = void;
    bool operator()(const Ptr& a, const Ptr& b) const { return Less()(*a, *b); }
    template <typename Probe>
    bool operator()(const Ptr& a, const Probe& b) const {
      return Less()(*a, b);
    }
    template <typename Probe>
    bool operator()(const Probe& a, const Ptr& b) const {
      return Less()(a, *b);
    }
  };

  // Called each time that as many values were added as were in use, so that its cost per value is
  // constant.
  void drop_unused() REQUIRES(mutex_) {
    std::erase_if(values_, [](const Ptr& value) { return value.use_count() == 1; });
    limit_ = std::max(kFewest, 2 * values_.size());
  }

  static constexpr size_t kFewest = 64;

  mutable Mutex mutex_;  // only under it does a value get a new holder
  std::set<Ptr, ByValue> values_ GUARDED_BY(mutex_);
  size_t limit_ GUARDED_BY(mutex_) = kFewest;
};

}  // namespace compilecache
