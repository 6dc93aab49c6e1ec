#include "kube/cpprest_transport.hpp"

#include <cpprest/astreambuf.h>
#include <cpprest/http_client.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pplx/threadpool.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "kube/credentials.hpp"
#include "kube/tls_context.hpp"

// The only file that includes cpprestsdk, whose headers define a macro U that breaks fmt.

namespace compilecache::kube {
namespace {

namespace web_http = web::http;
using Timepoint = std::chrono::steady_clock::time_point;

// They only move bytes between sockets and waiting threads.
constexpr size_t kLibraryThreads = 2;
// The library's own timer counts silence; ours, which also counts connecting, goes first.
constexpr std::chrono::hours kLibraryTimeout{24};
constexpr size_t kErrorBodyLimit = 64 << 10;
constexpr size_t kBodyLimit = size_t(1) << 30;
// A watch event is an object, and etcd takes none above 1.5 MiB; JSON may be a few times that.
constexpr size_t kLineLimit = 64 << 20;

void start_library_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      crossplat::threadpool::initialize_with_threads(kLibraryThreads);
    } catch (const std::exception& error) {
      log_warn("the HTTP library was started before with its own number of threads",
               {{"error", error.what()}});
    }
  });
}

// How an exchange failed, as far as the library tells.
struct Failure {
  enum class Kind { kRefused, kTimeout, kBroken };
  Kind kind = Kind::kBroken;
  std::string message;
};

Failure describe_failure(const std::exception_ptr& thrown) {
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

// Where the library's threads and the calling thread meet. The library holds it as long as it
// needs, even when the caller has given up.
class Exchange {
 public:
  enum class News { kHeaders, kChunk, kEnd, kFailed, kTimeout, kCancelled };

  // --- the library's side -----------------------------------------------------------------
  void on_headers(const web_http::http_response& response) {
    std::lock_guard<std::mutex> lock(mutex_);
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
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    if (thrown) failure_ = describe_failure(thrown);
    changed_.notify_all();
  }

  // The library reads on when the task is done: the caller has taken the chunk.
  pplx::task<size_t> on_chunk(const uint8_t* bytes, size_t count) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (abandoned_) return pplx::task_from_result<size_t>(count);
    chunk_ = bytes;
    chunk_size_ = count;
    chunk_taken_ = pplx::task_completion_event<size_t>();
    changed_.notify_all();
    return pplx::create_task(chunk_taken_);
  }

  // --- the caller's side ------------------------------------------------------------------
  // The next thing that happened; a chunk is moved to `chunk`.
  News wait(Timepoint until, std::string& chunk) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto news = [&] {
      return cancelled_ || (headers_ && !told_) || (told_ && chunk_ != nullptr) || ended_;
    };
    if (!changed_.wait_until(lock, until, news)) return News::kTimeout;
    if (cancelled_) return News::kCancelled;
    if (headers_ && !told_) {
      told_ = true;
      return News::kHeaders;
    }
    if (told_ && chunk_ != nullptr) {
      chunk.assign(reinterpret_cast<const char*>(chunk_), chunk_size_);
      take_chunk();
      return News::kChunk;
    }
    return failure_ ? News::kFailed : News::kEnd;
  }

  void set_cancelled() {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

  // The caller is gone: what still comes is thrown away.
  void abandon() {
    std::lock_guard<std::mutex> lock(mutex_);
    abandoned_ = true;
    if (chunk_ != nullptr) take_chunk();
  }

  // Only after kHeaders, by the caller.
  HttpResponse& response() { return response_; }
  [[nodiscard]] Failure failure() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return failure_.value_or(Failure{});
  }

 private:
  void take_chunk() {
    chunk_ = nullptr;
    chunk_taken_.set(chunk_size_);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse response_;
  bool headers_ = false;
  bool told_ = false;  // the caller knows the headers
  bool ended_ = false;
  bool cancelled_ = false;
  bool abandoned_ = false;
  std::optional<Failure> failure_;
  const uint8_t* chunk_ = nullptr;
  size_t chunk_size_ = 0;
  pplx::task_completion_event<size_t> chunk_taken_;
};

// Where the library writes a body; hands chunks to the exchange. All that is for reading or
// seeking is refused.
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

// One exchange as the caller sees it; ends it when it goes.
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
    // Every task ends in a continuation that looks at its exception; one that nobody looked at
    // would end the process.
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

// Cuts chunks into lines.
class LineCutter {
 public:
  explicit LineCutter(const LineHandler& on_line) : on_line_(on_line) {}

  // False when the handler has enough.
  bool add(const std::string& chunk) {
    size_t begin = 0;
    for (size_t end; (end = chunk.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line(chunk.data() + begin, end - begin);
      if (!rest_.empty()) {
        rest_ += line;
        line = rest_;
      }
      const bool more = line.empty() || on_line_(line);
      rest_.clear();
      if (!more) return false;
    }
    rest_.append(chunk, begin);
    return true;
  }
  bool finish() { return rest_.empty() || on_line_(rest_); }
  [[nodiscard]] bool too_long() const { return rest_.size() > kLineLimit; }

 private:
  const LineHandler& on_line_;
  std::string rest_;
};

class CpprestTransport : public HttpTransport {
 public:
  CpprestTransport(const Config& config, const TransportOptions& options, const Clock& clock)
      : config_(config),
        user_agent_(options.user_agent.empty() ? "compilecache/" COMPILECACHE_VERSION
                                               : options.user_agent),
        credentials_(make_credential_source(config, clock)),
        tls_(std::make_shared<TlsContext>(config)) {}

  // Finds what is unreadable before the first request does. A plugin is not run yet.
  Status check() const {
    if (config_.server.find("://[") != std::string::npos) {
      return fail(ErrorCode::kInvalid, "the server " + config_.server +
                                           " is an IPv6 literal, which the HTTP library does not "
                                           "take; use a DNS name");
    }
    if (auto ca = read_pem(config_.ca, "the certificate authority"); !ca) {
      return unexpected(ca.error());
    }
    if (config_.exec) return {};
    auto credentials = credentials_->current();
    if (!credentials) return unexpected(credentials.error());
    return tls_->use(*credentials);
  }

  Result<HttpResponse> send(const HttpRequest& request, const Cancellation& cancel) override {
    return with_credentials<Result<HttpResponse>>(
        request, [&](web_http::client::http_client& client, const web_http::http_request& http) {
          return exchange(client, http, request, cancel);
        });
  }

  StreamEnd stream(const HttpRequest& request, const LineHandler& on_line,
                   const Cancellation& cancel) override {
    return with_credentials<StreamEnd>(
        request, [&](web_http::client::http_client& client, const web_http::http_request& http) {
          return stream_lines(client, http, request, on_line, cancel);
        });
  }

 private:
  static bool unauthorized(const Result<HttpResponse>& result) {
    return result && result->status == 401;
  }
  static bool unauthorized(const StreamEnd& end) {
    return end.kind == StreamEnd::Kind::kStatus && end.response.status == 401;
  }
  static void set_error(const Error& error, Result<HttpResponse>& result) {
    result = unexpected(error);
  }
  static void set_error(const Error& error, StreamEnd& end) {
    end = {StreamEnd::Kind::kRefused, {}, error.message};
  }

  // Sends once, and once more with new credentials when the server did not accept the first.
  template <typename Answer, typename Send>
  Answer with_credentials(const HttpRequest& request, const Send& send_one) {
    Answer answer{};
    std::optional<Credentials> rejected;
    for (int tries = 0; tries < 2; ++tries) {
      auto credentials = credentials_->current();
      if (credentials && rejected && *credentials == *rejected) return answer;  // no others to try
      if (!credentials) {
        set_error(credentials.error(), answer);
        return answer;
      }
      auto client = client_for(*credentials);
      if (!client) {
        set_error(client.error(), answer);
        return answer;
      }
      try {
        answer = send_one(**client, make_request(request, *credentials));
      } catch (const std::exception& error) {
        set_error({ErrorCode::kInternal, std::string("HTTP library: ") + error.what()}, answer);
        return answer;
      }
      if (!unauthorized(answer)) return answer;
      credentials_->rejected(*credentials);
      rejected = *credentials;
    }
    return answer;
  }

  web_http::http_request make_request(const HttpRequest& request,
                                      const Credentials& credentials) const {
    web_http::http_request http(request.method);
    http.set_request_uri(web::uri(request.target));
    if (!request.body.empty()) http.set_body(request.body, request.content_type);
    auto& headers = http.headers();
    headers.add("User-Agent", user_agent_);
    headers.add("Accept", request.accept);
    if (!credentials.bearer_token.empty()) {
      headers.add("Authorization", "Bearer " + credentials.bearer_token);
    }
    // The library checks the certificate for, and sends as SNI, what the Host header says.
    if (!config_.tls_server_name.empty()) headers.add("Host", config_.tls_server_name);
    return http;
  }

  // Pooled connections belong to the client certificate they were made with.
  Result<std::shared_ptr<web_http::client::http_client>> client_for(
      const Credentials& credentials) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (client_ && credentials.client_certificate == client_certificate_) return client_;
    if (auto used = tls_->use(credentials); !used) return unexpected(used.error());
    web_http::client::http_client_config settings;
    settings.set_timeout(kLibraryTimeout);
    settings.set_validate_certificates(!config_.insecure_skip_tls_verify);
    settings.set_max_redirects(0);
    settings.set_ssl_context_callback(
        [tls = tls_](boost::asio::ssl::context& context) { tls->apply(context.native_handle()); });
    try {
      client_ = std::make_shared<web_http::client::http_client>(web::uri(config_.server), settings);
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInvalid, "the server " + config_.server + ": " + error.what());
    }
    client_certificate_ = credentials.client_certificate;
    return client_;
  }

  Result<HttpResponse> exchange(web_http::client::http_client& client,
                                const web_http::http_request& http, const HttpRequest& request,
                                const Cancellation& cancel) const {
    const Timepoint until = std::chrono::steady_clock::now() + request.timeout;
    Call call(client, http, cancel);
    std::string chunk;
    std::string body;
    while (true) {
      switch (call.wait(until, chunk)) {
        case Exchange::News::kHeaders:
          break;
        case Exchange::News::kChunk:
          body += chunk;
          if (body.size() > kBodyLimit) {
            return fail(ErrorCode::kTooLarge, "the answer of " + config_.server + " is too large");
          }
          break;
        case Exchange::News::kEnd:
          call.exchange().response().body = std::move(body);
          return std::move(call.exchange().response());
        case Exchange::News::kCancelled:
          return fail(ErrorCode::kCancelled, "cancelled");
        case Exchange::News::kTimeout:
          return fail(ErrorCode::kTimeout, config_.server + " did not answer within " +
                                               std::to_string(request.timeout.count()) + "ms");
        case Exchange::News::kFailed:
          return unexpected(error_of(call.exchange().failure()));
      }
    }
  }

  Error error_of(const Failure& failure) const {
    const std::string message = config_.server + ": " + failure.message;
    switch (failure.kind) {
      case Failure::Kind::kRefused:
        return {ErrorCode::kUnavailable, message};
      case Failure::Kind::kTimeout:
        return {ErrorCode::kTimeout, message};
      case Failure::Kind::kBroken:
        break;
    }
    return {ErrorCode::kIo, message};
  }

  StreamEnd stream_lines(web_http::client::http_client& client, const web_http::http_request& http,
                         const HttpRequest& request, const LineHandler& on_line,
                         const Cancellation& cancel) const {
    using Kind = StreamEnd::Kind;
    Timepoint until = std::chrono::steady_clock::now() + request.timeout;
    Call call(client, http, cancel);
    LineCutter lines(on_line);
    StreamEnd end;
    bool headers = false;
    bool lines_wanted = false;
    std::string chunk;
    while (true) {
      switch (call.wait(until, chunk)) {
        case Exchange::News::kHeaders:
          headers = true;
          end.response = call.exchange().response();
          lines_wanted = end.response.status == 200;
          break;
        case Exchange::News::kChunk:
          if (!lines_wanted) {
            end.response.body += chunk;
            if (end.response.body.size() > kErrorBodyLimit)
              return {Kind::kStatus, end.response, ""};
          } else if (!lines.add(chunk)) {
            return {Kind::kStopped, {}, ""};
          } else if (lines.too_long()) {
            return {Kind::kBroken, {}, "a line of " + config_.server + " is too long"};
          }
          break;
        case Exchange::News::kEnd:
          if (!lines_wanted) return {Kind::kStatus, end.response, ""};
          return {lines.finish() ? Kind::kClosed : Kind::kStopped, {}, ""};
        case Exchange::News::kCancelled:
          return {Kind::kCancelled, {}, ""};
        case Exchange::News::kTimeout:
          return {Kind::kTimeout,
                  {},
                  config_.server + (headers ? " was silent for too long" : " sent no headers")};
        case Exchange::News::kFailed:
          return stream_failure(call.exchange().failure());
      }
      if (headers) until = std::chrono::steady_clock::now() + request.idle_timeout;
    }
  }

  StreamEnd stream_failure(const Failure& failure) const {
    using Kind = StreamEnd::Kind;
    const std::string message = config_.server + ": " + failure.message;
    switch (failure.kind) {
      case Failure::Kind::kRefused:
        return {Kind::kRefused, {}, message};
      case Failure::Kind::kTimeout:
        return {Kind::kTimeout, {}, message};
      case Failure::Kind::kBroken:
        break;
    }
    return {Kind::kBroken, {}, message};
  }

  const Config config_;
  const std::string user_agent_;
  const std::unique_ptr<CredentialSource> credentials_;
  const std::shared_ptr<TlsContext> tls_;
  std::mutex mutex_;  // guards the two below
  std::shared_ptr<web_http::client::http_client> client_;
  std::string client_certificate_;
};

}  // namespace

Result<std::shared_ptr<HttpTransport>> make_transport(const Config& config,
                                                      const TransportOptions& options,
                                                      const Clock& clock) {
  start_library_once();
  auto transport = std::make_shared<CpprestTransport>(config, options, clock);
  if (auto ok = transport->check(); !ok) {
    return unexpected(ok.error().with("connecting as " + config.source + " says"));
  }
  return std::shared_ptr<HttpTransport>(std::move(transport));
}

}  // namespace compilecache::kube
