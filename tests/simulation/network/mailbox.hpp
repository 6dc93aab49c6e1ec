#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/mutex.hpp"
#include "http/message.hpp"
#include "http/responder.hpp"

namespace compilecache::simulation {

// One answer of an HTTP handler for one waiting thread.
//
//   const auto mailbox = std::make_shared<Mailbox>();
//   handle(request, http::make_responder(std::weak_ptr<http::AnswerSink>(mailbox), 1));
//   const auto response = mailbox->wait_for(std::chrono::seconds(3), {});
class Mailbox : public http::AnswerSink {
 public:
  void answer(uint64_t /*request*/, http::Response response) override {
    const MutexLock lock(mutex_);
    response_ = std::move(response);
    arrived_.notify_all();
  }
  // Nothing: no answer in that time, or it was to stop. No std::stop_callback: its end waits for
  // the stop by a futex of its own, which no fiber may.
  std::optional<http::Response> wait_for(std::chrono::milliseconds time,
                                         const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kLookForStop{100};
    const auto end = std::chrono::steady_clock::now() + time;
    const MutexLock lock(mutex_);
    while (!response_ && !stop.stop_requested() && std::chrono::steady_clock::now() < end) {
      const auto until = std::min(end, std::chrono::steady_clock::now() + kLookForStop);
      arrived_.wait_until(mutex_, until, [this] { return response_.has_value(); });
    }
    return response_;
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::optional<http::Response> response_;
};

}  // namespace compilecache::simulation
