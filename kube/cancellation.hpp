#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.hpp"

// Tells work that blocks that nobody wants its result any more.
//
//   Cancellation cancel;                       // copies share one state
//   std::thread worker([cancel] { transport->stream(request, on_line, cancel); });
//   cancel.cancel();                           // the stream returns at once
//
// Thread-safe.

namespace compilecache::kube {

class Cancellation {
 public:
  Cancellation();

  // Sets the state and runs what was registered, once, in this thread.
  void cancel() const;
  [[nodiscard]] bool cancelled() const;

  // Waits until cancelled or the time is over; true when cancelled.
  [[nodiscard]] bool wait_for(Duration time) const;

  // Runs `callback` at cancel(), or now when that has been. It is forgotten when the returned
  // object goes, which waits for a callback that is running in another thread.
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
