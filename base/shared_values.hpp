#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
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
// A value without a holder is dropped after as many calls as there are half the values. Each
// call looks at two values, so that memory shrinks again after a
// burst. Where Less also compares a T with other types (is_transparent), find_or_make() takes
// those. Thread-safe.

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
    drop_unused();
    if (const auto found = values_.find(probe); found != values_.end()) return *found;
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

  void drop_unused() REQUIRES(mutex_) {
    for (int looks = 0; looks < kLooks && !values_.empty(); ++looks) {
      if (next_ == values_.end()) next_ = values_.begin();
      next_ = (*next_).use_count() == 1 ? values_.erase(next_) : std::next(next_);
    }
  }

  // More than one, so that values cannot come faster than they go.
  static constexpr int kLooks = 2;

  mutable Mutex mutex_;  // only under it does a value get a new holder
  using Values = std::set<Ptr, ByValue>;
  Values values_ GUARDED_BY(mutex_);
  typename Values::iterator next_ GUARDED_BY(mutex_) = values_.end();  // to be looked at
};

}  // namespace compilecache
