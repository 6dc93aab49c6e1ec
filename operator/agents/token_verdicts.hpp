#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/sha256.hpp"

// A cache of verdicts on bearer tokens. It keeps only their SHA-256.
//
//   TokenVerdicts<Status> verdicts(1'000, clock);
//   if (const auto known = verdicts.find(token)) return *known;
//   const Status verdict = ask_the_api_server(token);
//   verdicts.remember(token, verdict, verdict ? kBelieveYes : kBelieveNo);
//
// Thread-safe.

namespace compilecache::controller {

template <typename Verdict>
class TokenVerdicts {
 public:
  // At `most` tokens those that are believed no more go, and all if that does not help: then each
  // is asked for once more.
  TokenVerdicts(size_t most, const Clock& clock) : most_(most), clock_(clock) {}

  std::optional<Verdict> find(std::string_view token) const {
    const std::string hash = sha256_hex(token);
    const MutexLock lock(mutex_);
    const auto found = known_.find(hash);
    if (found == known_.end() || clock_.monotonic() >= found->second.until) return std::nullopt;
    return found->second.verdict;
  }

  void remember(std::string_view token, Verdict verdict, std::chrono::milliseconds believe_for) {
    std::string hash = sha256_hex(token);
    const MutexLock lock(mutex_);
    const Monotonic now = clock_.monotonic();
    if (known_.size() >= most_) {
      std::erase_if(known_, [&](const auto& item) { return item.second.until <= now; });
      if (known_.size() >= most_) known_.clear();
    }
    known_.insert_or_assign(std::move(hash), Known{std::move(verdict), now + believe_for});
  }

 private:
  struct Known {
    Verdict verdict;
    Monotonic until;
  };
  const size_t most_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<std::string, Known> known_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
