#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.hpp"

// Reviews of pods whose CompileCache was applied together with them and is not there yet. A few are
// held until it is, so that the first pod of a GitOps sync is injected; then, or when the time is
// up, each is resumed once.
//
//   PendingReviews pending(is_decided, clock);
//   pending.start();
//   if (!pending.hold("ml/llama", begin + seconds(1), answer)) answer();
//
// At most kMost are held, kMostOfANamespace of each namespace and one for each name. A name for
// which one waited until its time was up is not waited for again within kPause, so that a misspelt
// name delays one pod of a burst. A namespace with many such names is not waited for at all, so
// that it takes no place from others. Thread-safe. `resume` is called in a thread of this object,
// or in stop().

namespace compilecache::controller {

class PendingReviews {
 public:
  static constexpr size_t kMost = 16;
  static constexpr std::chrono::seconds kPause{60};
  static constexpr size_t kMostOfANamespace = 4;
  // Names that are remembered for kPause, of a namespace and in all; with more, nothing is held.
  static constexpr size_t kMostPausedOfANamespace = 32;
  static constexpr size_t kMostPaused = 4096;

  // Whether a review of a pod that names this CompileCache can be answered now; called often.
  using IsDecided = std::function<bool(const std::string& cache)>;
  using Resume = std::function<void()>;

  // The clock must outlive it.
  PendingReviews(IsDecided is_decided, const Clock& clock);
  ~PendingReviews();
  PendingReviews(const PendingReviews&) = delete;
  PendingReviews& operator=(const PendingReviews&) = delete;

  void start();
  // Resumes all that are held; holds nothing afterwards.
  void stop();

  // False: the review is to be answered now, and `resume` is not called.
  [[nodiscard]] bool hold(const std::string& cache, Monotonic until, Resume resume);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::controller
