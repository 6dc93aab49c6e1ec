#pragma once

#include <cpprest/astreambuf.h>
#include <cpprest/http_client.h>

#include <cctype>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.hpp"
#include "kube/http_transport.hpp"

// One request of cpprestsdk, seen by the thread that waits for it. Only for cpprest_transport.cpp.

namespace compilecache::kube::cpprest {

namespace web_http = web::http;
using Timepoint = std::chrono::steady_clock::time_point;

// How an exchange failed, as far as the library says.
struct Failure {
  enum class Kind { kRefused, kTimeout, kBroken };
  Kind kind = Kind::kBroken;
  std::string message;
};

inline Failure describe_failure(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const web_http::http_exception& error) {
    const std::string what = error.what();
    const int code = error.error_code().value();
    const auto begins = [&](const char* text) { return what.rfind(text, 0) == 0; };
    if (code == int(std::errc::timed_out)) return {Failure::Kind::kTimeout, what};
    if (begins("Error in SSL handshake")) {
      return {Failure::Kind::kRefused,
              "TLS handshake failed: check the certificate authority and the server's name"};
    }
    if (begins("Failed to connect") || begins("Error resolving") || begins("Failed to resolve")) {
      return {Failure::Kind::kRefused, what};
    }
    return {Failure::Kind::kBroken, what};
  } catch (const std::exception& error) {
    return {Failure::Kind::kBroken, error.what()};
  } catch (...) {
    return {Failure::Kind::kBroken, "unknown failure of the HTTP library"};
  }
}

// Hands results from the library's threads to the calling thread. The library holds it as long as
// it needs it, even when the caller has given up.
class Exchange {
 public:
  enum class News { kHeaders, kChunk, kEnd, kFailed, kTimeout, kCancelled };

  // --- the library's side -----------------------------------------------------------------
  void on_headers(const web_http::http_response& response) {
    const MutexLock lock(mutex_);
    response_.status = response.status_code();
    for (const auto& [name, value] : response.headers()) {
      std::string lower;
      for (const char c : name) lower += static_cast<char>(std::tolower(c));
      response_.headers[lower] = value;
    }
    headers_ = true;
    changed_.notify_all();
  }

  void on_end(const std::exception_ptr& thrown) {
    const MutexLock lock(mutex_);
    ended_ = true;
    if (thrown) failure_ = describe_failure(thrown);
    changed_.notify_all();
  }

  // The library reads on when the task is done: the caller has taken the chunk.
  pplx::task<size_t> on_chunk(const uint8_t* bytes, size_t count) {
    const MutexLock lock(mutex_);
    if (abandoned_) return pplx::task_from_result<size_t>(count);
    chunk_ = bytes;
    chunk_size_ = count;
    chunk_taken_ = pplx::task_completion_event<size_t>();
    changed_.notify_all();
    return pplx::create_task(chunk_taken_);
  }

  // --- the caller's side ------------------------------------------------------------------

  // Waits for the next event; a chunk is moved to `chunk`.
  News wait(Timepoint until, std::string& chunk) {
    const MutexLock lock(mutex_);
    const auto news = [&]() REQUIRES(mutex_) {
      return cancelled_ || (headers_ && !headers_taken_) || (headers_taken_ && chunk_ != nullptr) ||
             ended_;
    };
    if (!changed_.wait_until(mutex_, until, news)) return News::kTimeout;
    if (cancelled_) return News::kCancelled;
    if (headers_ && !headers_taken_) {
      headers_taken_ = true;
      return News::kHeaders;
    }
    if (headers_taken_ && chunk_ != nullptr) {
      chunk.assign(reinterpret_cast<const char*>(chunk_), chunk_size_);
      take_chunk();
      return News::kChunk;
    }
    return failure_ ? News::kFailed : News::kEnd;
  }

  void set_cancelled() {
    const MutexLock lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

  // The caller has returned: later chunks are discarded.
  void abandon() {
    const MutexLock lock(mutex_);
    abandoned_ = true;
    if (chunk_ != nullptr) take_chunk();
  }

  // The caller may use it only after kHeaders.
  HttpResponse& response() { return response_; }
  [[nodiscard]] Failure failure() const {
    const MutexLock lock(mutex_);
    return failure_.value_or(Failure{});
  }

 private:
  void take_chunk() REQUIRES(mutex_) {
    chunk_ = nullptr;
    chunk_taken_.set(chunk_size_);
  }

  mutable Mutex mutex_;
  CondVar changed_;
  HttpResponse response_;  // of the library's thread until kHeaders, then of the caller
  bool headers_ GUARDED_BY(mutex_) = false;
  bool headers_taken_ GUARDED_BY(mutex_) = false;  // the caller has got kHeaders
  bool ended_ GUARDED_BY(mutex_) = false;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool abandoned_ GUARDED_BY(mutex_) = false;
  std::optional<Failure> failure_ GUARDED_BY(mutex_);
  const uint8_t* chunk_ GUARDED_BY(mutex_) = nullptr;
  size_t chunk_size_ GUARDED_BY(mutex_) = 0;
  pplx::task_completion_event<size_t> chunk_taken_ GUARDED_BY(mutex_);
};

// The stream buffer to which the library writes a body; it hands the chunks to the exchange.
// Reading and seeking are refused.
class BodyBuffer : public concurrency::streams::details::streambuf_state_manager<uint8_t> {
 public:
  explicit BodyBuffer(std::shared_ptr<Exchange> exchange)
      : streambuf_state_manager(std::ios_base::out), exchange_(std::move(exchange)) {}

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  utility::size64_t size() const override { return 0; }
  size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(size_t, std::ios_base::openmode) override {}
  size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return pos_type(off_type(-1)); }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return pos_type(off_type(-1)); }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return pos_type(off_type(-1));
  }
  bool acquire(uint8_t*& bytes, size_t& count) override {
    bytes = nullptr;
    count = 0;
    return false;
  }
  void release(uint8_t*, size_t) override {}

 protected:
  pplx::task<size_t> _putn(const uint8_t* bytes, size_t count) override {
    return exchange_->on_chunk(bytes, count);
  }
  pplx::task<size_t> _putn(const uint8_t* bytes, size_t count, bool) override {
    return exchange_->on_chunk(bytes, count);
  }
  pplx::task<int_type> _putc(uint8_t) override { return pplx::task_from_result(traits::eof()); }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  uint8_t* _alloc(size_t) override { return nullptr; }
  void _commit(size_t) override {}
  pplx::task<int_type> _bumpc() override { return pplx::task_from_result(traits::eof()); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return pplx::task_from_result(traits::eof()); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return pplx::task_from_result(traits::eof()); }
  pplx::task<int_type> _ungetc() override { return pplx::task_from_result(traits::eof()); }
  pplx::task<size_t> _getn(uint8_t*, size_t) override { return pplx::task_from_result<size_t>(0); }
  size_t _scopy(uint8_t*, size_t) override { return 0; }

 private:
  std::shared_ptr<Exchange> exchange_;
};

// The caller's handle of one exchange, which ends it in the destructor.
class Call {
 public:
  Call(web_http::client::http_client& client, const web_http::http_request& request,
       const Cancellation& cancel)
      : exchange_(std::make_shared<Exchange>()) {
    web_http::http_request own = request;
    own.set_response_stream(
        concurrency::streams::streambuf<uint8_t>(std::make_shared<BodyBuffer>(exchange_))
            .create_ostream());
    registration_ = cancel.on_cancel([exchange = exchange_] { exchange->set_cancelled(); });
    // Every task ends in a continuation that observes its exception; an unobserved one would end
    // the process.
    client.request(own, stop_.get_token())
        .then([exchange = exchange_](pplx::task<web_http::http_response> task) {
          try {
            web_http::http_response response = task.get();
            exchange->on_headers(response);
            response.content_ready().then([exchange](pplx::task<web_http::http_response> body) {
              try {
                body.get();
                exchange->on_end(nullptr);
              } catch (...) {
                exchange->on_end(std::current_exception());
              }
            });
          } catch (...) {
            exchange->on_end(std::current_exception());
          }
        });
  }
  ~Call() {
    registration_.reset();
    // After a proper end this does nothing, and the connection is kept for the next request.
    if (!ended_) stop_.cancel();
    exchange_->abandon();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Exchange::News wait(Timepoint until, std::string& chunk) {
    const auto news = exchange_->wait(until, chunk);
    ended_ = news == Exchange::News::kEnd;
    return news;
  }
  Exchange& exchange() { return *exchange_; }

 private:
  std::shared_ptr<Exchange> exchange_;
  pplx::cancellation_token_source stop_;
  std::unique_ptr<Cancellation::Registration> registration_;
  bool ended_ = false;
};

}  // namespace compilecache::kube::cpprest
