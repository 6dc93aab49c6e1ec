#pragma once

#include <functional>
#include <memory>

#include "http/message.hpp"
#include "http/server.hpp"

// Threads that answer agents' requests, since an answer may wait for the API server.
//
//   RequestPool pool(8, [&](const http::Request& asked) { return answer(asked); });
//   pool.start();
//   pool.handle(std::move(request), std::move(respond));
//   pool.stop();  // finishes what it has begun
//
// Addresses take turns. 503 at once when too many requests wait, 429 when too many of one address
// do; 500 where `answer` throws. Thread-safe.

namespace compilecache::controller {

class RequestPool {
 public:
  using Answer = std::function<http::Response(const http::Request&)>;

  RequestPool(int threads, Answer answer);
  ~RequestPool();
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  void start();
  void stop();
  void handle(http::Request request, http::Responder respond);
  // The answer itself, in this thread.
  [[nodiscard]] http::Response answer(const http::Request& request) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::controller
