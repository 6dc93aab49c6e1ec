#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.hpp"

// Cancels work that blocks, from another thread.
//
//   Cancellation cancel;                       // copies share one state
//   std::thread worker([=] { transport->stream(request, on_line, cancel); });
//   cancel.cancel();                           // the stream returns at once
//
// Thread-safe.

namespace compilecache::kube {

class Cancellation {
 public:
  Cancellation();

  // Sets the state and runs the registered callbacks, once, in this thread.
  void cancel() const;
  [[nodiscard]] bool cancelled() const;

  // Waits until cancelled or the time is over; true when cancelled.
  [[nodiscard]] bool wait_for(Duration time) const;

  // Runs `callback` at cancel(), or at once where that was called before. Destroying the returned
  // object removes the callback, and waits for it while it runs in another thread.
  class Registration;
  [[nodiscard]] std::unique_ptr<Registration> on_cancel(std::function<void()> callback) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

class Cancellation::Registration {
 public:
  Registration(std::shared_ptr<State> state, uint64_t id);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  std::shared_ptr<State> state_;
  uint64_t id_;
};

}  // namespace compilecache::kube
