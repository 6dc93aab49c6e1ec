#include "kube/cpprest_transport.hpp"

#include <cpprest/http_client.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/release.hpp"
#include "kube/cpprest_call.hpp"
#include "kube/credentials.hpp"
#include "kube/gzip_reader.hpp"
#include "kube/ipv6_server.hpp"
#include "kube/tls_context.hpp"

// The only file (with cpprest_call.hpp) that includes cpprestsdk, whose headers define a macro U
// that breaks fmt.

namespace compilecache::kube {
namespace {

namespace web_http = web::http;
using cpprest::Call;
using cpprest::Exchange;
using cpprest::Failure;
using cpprest::Timepoint;

// They only move bytes between sockets and waiting threads.
constexpr size_t kLibraryThreads = 2;
// The library's own timer counts silence; this one, which also counts connecting, ends first.
constexpr std::chrono::hours kLibraryTimeout{24};
constexpr size_t kErrorBodyLimit = 64 << 10;
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

// Cuts chunks into lines, or into frames with their length before them.
class Cutter {
 public:
  Cutter(const LineHandler& on_line, bool frames) : on_line_(on_line), frames_(frames) {}

  // False when the handler has enough.
  bool add(std::string_view chunk) { return frames_ ? add_frames(chunk) : add_lines(chunk); }
  // The rest of a line counts as a line; the rest of a frame is dropped.
  bool finish() { return frames_ || rest_.empty() || on_line_(rest_); }
  [[nodiscard]] bool too_long() const { return rest_.size() > kLineLimit || wanted_ > kLineLimit; }

 private:
  bool add_lines(std::string_view chunk) {
    for (size_t end; (end = chunk.find('\n')) != std::string::npos; chunk.remove_prefix(end + 1)) {
      if (!deliver(chunk.substr(0, end))) return false;
    }
    rest_ += chunk;
    return true;
  }

  bool add_frames(std::string_view chunk) {
    while (true) {
      if (wanted_ == 0) {
        const size_t count = std::min(kLengthSize - length_.size(), chunk.size());
        length_ += chunk.substr(0, count);
        chunk.remove_prefix(count);
        if (length_.size() < kLengthSize) return true;
        for (const char c : length_) wanted_ = wanted_ << 8 | static_cast<unsigned char>(c);
        length_.clear();
        if (wanted_ == 0 || too_long()) return true;
      }
      const size_t missing = wanted_ - rest_.size();
      if (chunk.size() < missing) {
        rest_ += chunk;
        return true;
      }
      wanted_ = 0;
      if (!deliver(chunk.substr(0, missing))) return false;
      chunk.remove_prefix(missing);
    }
  }

  // Delivers a line or frame of which `piece` is the end; its beginning may have come before.
  bool deliver(std::string_view piece) {
    if (!rest_.empty()) {
      rest_ += piece;
      piece = rest_;
    }
    const bool more = piece.empty() || on_line_(piece);
    rest_.clear();
    return more;
  }

  static constexpr size_t kLengthSize = 4;  // big-endian

  const LineHandler& on_line_;
  const bool frames_;
  std::string rest_;
  std::string length_;  // as far as it has come
  size_t wanted_ = 0;   // of the frame that comes; 0: its length comes first
};

bool in_frames(const HttpResponse& response) {
  const auto type = response.headers.find("content-type");
  return type != response.headers.end() && type->second.find("protobuf") != std::string::npos;
}

class CpprestTransport : public HttpTransport {
 public:
  CpprestTransport(const Config& config, const TransportOptions& options, const Clock& clock)
      : config_(config),
        user_agent_(options.user_agent.empty() ? std::string("compilecache/") + release()
                                               : options.user_agent),
        credentials_(make_credential_source(config, clock)),
        ipv6_(ipv6_server(config.server)),
        tls_(std::make_shared<TlsContext>(config)) {}

  // Finds what is unreadable before the first request does. A plugin is not run yet.
  Status check() const {
    if (config_.server.find("://[") != std::string::npos && !ipv6_) {
      return fail(ErrorCode::kInvalid, "the server " + config_.server +
                                           " is not a URL with an IPv6 address, such as "
                                           "https://[fd00::1]:6443");
    }
    if (auto ca = read_pem(config_.ca, "the certificate authority"); !ca) {
      return unexpected(ca.error());
    }
    if (config_.exec) return {};
    auto credentials = credentials_->current();
    if (!credentials) return unexpected(credentials.error());
    return tls_->use(*credentials);
  }

  Result<HttpResponse> fetch(const HttpRequest& request, const BodyHandler& on_body,
                             const Cancellation& cancel) override {
    return with_credentials<Result<HttpResponse>>(
        request, [&](web_http::client::http_client& client, const web_http::http_request& http) {
          return exchange(client, http, request, on_body, cancel);
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
    if (request.compressed) headers.add("Accept-Encoding", "gzip");
    if (!credentials.bearer_token.empty()) {
      headers.add("Authorization", "Bearer " + credentials.bearer_token);
    }
    // The library checks the certificate for, and sends as SNI, what the Host header says.
    if (!config_.tls_server_name.empty()) {
      headers.add("Host", config_.tls_server_name);
    } else if (ipv6_) {
      headers.add("Host", ipv6_->host_header);
    }
    return http;
  }

  // Pooled connections belong to the client certificate they were made with.
  Result<std::shared_ptr<web_http::client::http_client>> client_for(
      const Credentials& credentials) {
    const MutexLock lock(mutex_);
    if (client_ && credentials.client_certificate == client_certificate_) return client_;
    if (auto used = tls_->use(credentials); !used) return unexpected(used.error());
    web_http::client::http_client_config settings;
    settings.set_timeout(kLibraryTimeout);
    settings.set_validate_certificates(!config_.insecure_skip_tls_verify);
    settings.set_max_redirects(0);
    const bool by_address =
        ipv6_ && config_.tls_server_name.empty() && !config_.insecure_skip_tls_verify;
    settings.set_ssl_context_callback(
        [tls = tls_, address = by_address ? ipv6_->address : ""](auto& context) {
          tls->apply(context.native_handle());
          if (!address.empty()) prove_address(context.native_handle(), address);
        });
    try {
      const web::uri server(ipv6_ ? ipv6_->bare_url : config_.server);
      client_ = std::make_shared<web_http::client::http_client>(server, settings);
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInvalid, "the server " + config_.server + ": " + error.what());
    }
    client_certificate_ = credentials.client_certificate;
    return client_;
  }

  // Reads the body of one exchange, until its time is over.
  class ChunkReader : public BodyReader {
   public:
    ChunkReader(const CpprestTransport& transport, Call& call, const HttpRequest& request)
        : transport_(transport),
          call_(call),
          request_(request),
          until_(std::chrono::steady_clock::now() + request.timeout) {}

    Status wait_for_headers() {
      if (auto news = wait(); !news) return unexpected(news.error());
      return {};
    }
    Result<std::string_view> next() override {
      if (ended_) return std::string_view();
      chunk_.clear();
      while (chunk_.empty() && !ended_) {
        auto news = wait();
        if (!news) return unexpected(news.error());
        ended_ = *news == Exchange::News::kEnd;
      }
      return std::string_view(chunk_);
    }

   private:
    // Waits for the next event, which is kHeaders, kChunk or kEnd.
    Result<Exchange::News> wait() {
      const Timepoint silent = std::chrono::steady_clock::now() + request_.idle_timeout;
      const Exchange::News news = call_.wait(std::min(until_, silent), chunk_);
      switch (news) {
        case Exchange::News::kCancelled:
          return fail(ErrorCode::kCancelled, "cancelled");
        case Exchange::News::kTimeout: {
          const auto time = std::min(request_.timeout, request_.idle_timeout);
          return fail(ErrorCode::kTimeout, transport_.config_.server + " did not answer within " +
                                               std::to_string(time.count()) + "ms");
        }
        case Exchange::News::kFailed:
          return unexpected(transport_.error_of(call_.exchange().failure()));
        default:
          return news;
      }
    }

    const CpprestTransport& transport_;
    Call& call_;
    const HttpRequest& request_;
    const Timepoint until_;
    std::string chunk_;
    bool ended_ = false;
  };

  Result<HttpResponse> exchange(web_http::client::http_client& client,
                                const web_http::http_request& http, const HttpRequest& request,
                                const BodyHandler& on_body, const Cancellation& cancel) const {
    Call call(client, http, cancel);
    ChunkReader chunks(*this, call, request);
    if (auto headers = chunks.wait_for_headers(); !headers) return unexpected(headers.error());
    HttpResponse response = call.exchange().response();
    std::optional<GzipReader> unpacked;
    const auto encoding = response.headers.find("content-encoding");
    if (encoding != response.headers.end() && encoding->second == "gzip") unpacked.emplace(chunks);
    BodyReader& body = unpacked ? static_cast<BodyReader&>(*unpacked) : chunks;
    const bool good = response.status / 100 == 2;
    const Status read = good ? on_body(body) : read_error(body, response);
    if (!read) return unexpected(read.error());
    // Reads the body to its end, so that the connection can be used again.
    if (auto rest = body.next(); !rest) return unexpected(rest.error());
    return response;
  }

  static Status read_error(BodyReader& body, HttpResponse& response) {
    while (response.body.size() < kErrorBodyLimit) {
      const auto piece = body.next();
      if (!piece) return unexpected(piece.error());
      if (piece->empty()) break;
      response.body += *piece;
    }
    return {};
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
    std::optional<Cutter> lines;  // of an answer 200
    StreamEnd end;
    bool headers = false;
    std::string chunk;
    while (true) {
      const auto news = wait_ticking(call, until, request.tick, on_line, chunk);
      if (!news) return {Kind::kStopped, {}, ""};
      switch (*news) {
        case Exchange::News::kHeaders:
          headers = true;
          end.response = call.exchange().response();
          if (end.response.status == 200) lines.emplace(on_line, in_frames(end.response));
          break;
        case Exchange::News::kChunk:
          if (!lines) {
            end.response.body += chunk;
            if (end.response.body.size() > kErrorBodyLimit)
              return {Kind::kStatus, end.response, ""};
          } else if (!lines->add(chunk)) {
            return {Kind::kStopped, {}, ""};
          } else if (lines->too_long()) {
            return {Kind::kBroken, {}, "a line of " + config_.server + " is too long"};
          }
          break;
        case Exchange::News::kEnd:
          if (!lines) return {Kind::kStatus, end.response, ""};
          return {lines->finish() ? Kind::kClosed : Kind::kStopped, {}, ""};
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

  // The next thing that happened; nothing when the handler has enough.
  static std::optional<Exchange::News> wait_ticking(Call& call, Timepoint until,
                                                    std::chrono::milliseconds tick,
                                                    const LineHandler& on_line,
                                                    std::string& chunk) {
    if (tick.count() == 0) return call.wait(until, chunk);
    while (true) {
      const Timepoint next = std::chrono::steady_clock::now() + tick;
      const Exchange::News news = call.wait(std::min(until, next), chunk);
      if (news != Exchange::News::kTimeout || next >= until) return news;
      if (!on_line({})) return std::nullopt;
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
  const std::optional<Ipv6Server> ipv6_;
  const std::shared_ptr<TlsContext> tls_;
  Mutex mutex_;
  std::shared_ptr<web_http::client::http_client> client_ GUARDED_BY(mutex_);
  std::string client_certificate_ GUARDED_BY(mutex_);
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
