#include "http/session.hpp"

#include <algorithm>
#include <array>

#include "base/release.hpp"
#include "http/connector.hpp"
#include "http/exchange.hpp"
#include "http/url.hpp"
#include "http/wire_pool.hpp"

namespace compilecache::http {

namespace {

constexpr int kMostRedirects = 5;

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f;
  });
}

bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

bool is_named(std::string_view header, std::string_view name) {
  return find_header({{std::string(header), ""}}, name).has_value();
}

// The headers that the client sets itself.
bool is_ours(std::string_view header) {
  constexpr std::array kOurs = {"Host",       "Content-Length", "Transfer-Encoding",
                                "Connection", "Expect",         "Upgrade"};
  return std::any_of(kOurs.begin(), kOurs.end(),
                     [&](const char* name) { return is_named(header, name); });
}

// No value is reported: it may be a password.
Status check_headers(const SessionRequest& request) {
  if (!is_token(request.method)) {
    return fail(ErrorCode::kInvalid, "a request's method is not a word");
  }
  for (const auto& [name, value] : request.headers) {
    if (!is_token(name)) return fail(ErrorCode::kInvalid, "a header's name is not a word");
    if (is_ours(name)) return fail(ErrorCode::kInvalid, name + " is not the caller's to say");
    if (has_control_characters(value)) {
      return fail(ErrorCode::kInvalid, "the header " + name + " has control characters in it");
    }
  }
  return {};
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool follows(const std::string& method, int status) {
  const bool reads = method == "GET" || method == "HEAD";
  return reads ? is_redirect(status) : status == 307 || status == 308;
}

// The request line and headers, and a small body.
std::string head_of(const SessionRequest& request, const Url& url, bool with_authorization) {
  std::string head = request.method + " " + url.target + " HTTP/1.1\r\nHost: " + url.authority() +
                     "\r\nUser-Agent: compilecache/" + release() + "\r\n";
  for (const auto& [name, value] : request.headers) {
    if (!with_authorization && is_named(name, "Authorization")) continue;
    head.append(name).append(": ").append(value).append("\r\n");
  }
  const uint64_t size = request.source == nullptr ? request.body.size() : request.source->size();
  const bool always =
      request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (size > 0 || always) head += "Content-Length: " + std::to_string(size) + "\r\n";
  head += "\r\n";
  if (request.source == nullptr) head += request.body;
  return head;
}

}  // namespace

class Session::State {
 public:
  explicit State(SessionOptions options)
      : options_(std::move(options)),
        connector_(options_),
        pool_(options_.most_idle_connections, options_.idle_timeout) {}

  Result<std::unique_ptr<Answer>> start(const SessionRequest& request);

  void trust(std::string ca_pem) {
    connector_.trust(std::move(ca_pem));
    pool_.clear();
  }

  // An exchange that the cutoff ended is no fault of the server.
  [[nodiscard]] Error ended(Error error) const {
    if (error.code == ErrorCode::kTimeout && is_over()) error.code = ErrorCode::kCancelled;
    return error;
  }

  // Keeps the connection, if it can be used again.
  void keep(const Url& url, Exchange& exchange) {
    if (exchange.reusable()) pool_.give(origin_of(url), exchange.release());
  }

 private:
  class Received;
  using Exchanged = Result<std::unique_ptr<Exchange>>;

  [[nodiscard]] bool is_over() const {
    return options_.cutoff != nullptr && options_.cutoff->passed();
  }
  static std::string origin_of(const Url& url) { return url.scheme + "://" + url.host_port(); }

  Exchanged ask(const SessionRequest& request, const Url& url, bool with_authorization);
  Exchanged ask_anew(const Url& url, const std::string& where, const Patience& patience,
                     const Outgoing& outgoing, std::optional<SteadyTime> connect_by);
  Result<Url> next(const SessionRequest& request, const Url& url, Exchange& exchange);

  const SessionOptions options_;
  Connector connector_;
  WirePool pool_;
};

// The answer that a caller reads.
class Session::State::Received : public Answer {
 public:
  Received(State& state, Url url, std::unique_ptr<Exchange> exchange)
      : state_(state),
        url_(std::move(url)),
        url_text_(url_.text()),
        exchange_(std::move(exchange)),
        status_(exchange_->status()),
        headers_(exchange_->headers()) {
    state_.keep(url_, *exchange_);  // it may have no body
  }

  int status() const override { return status_; }
  const Headers& headers() const override { return headers_; }
  const std::string& url() const override { return url_text_; }

  Result<size_t> read(std::span<uint8_t> bytes) override {
    auto count = exchange_->read(bytes);
    if (!count) return unexpected(state_.ended(count.error()));
    state_.keep(url_, *exchange_);
    return count;
  }

 private:
  State& state_;
  const Url url_;
  const std::string url_text_;
  const std::unique_ptr<Exchange> exchange_;
  const int status_;
  const Headers headers_;
};

Result<std::unique_ptr<Answer>> Session::State::start(const SessionRequest& request) {
  if (auto checked = check_headers(request); !checked) return unexpected(checked.error());
  auto url = parse_url(request.url);
  if (!url) return unexpected(url.error());
  if (!url->user_info.empty()) {
    return fail(ErrorCode::kInvalid, url->shown() + ": a URL with user and password is not used");
  }
  if (auto permitted = connector_.permits(*url); !permitted) return unexpected(permitted.error());
  const Url first = *url;
  bool with_authorization = true;
  for (int redirects = 0;; ++redirects) {
    if (is_over()) {
      return fail(ErrorCode::kCancelled,
                  request.method + " " + url->shown() + ": not sent, as the time for it is up");
    }
    auto exchange = ask(request, *url, with_authorization);
    if (!exchange) return unexpected(ended(exchange.error()));
    const bool leads_on = follows(request.method, (*exchange)->status()) &&
                          find_header((*exchange)->headers(), "Location");
    if (!leads_on) {
      return std::make_unique<Received>(*this, *url, std::move(*exchange));
    }
    if (redirects == kMostRedirects) {
      return fail(ErrorCode::kCorrupt, request.method + " " + first.shown() + ": more than " +
                                           std::to_string(kMostRedirects) +
                                           " redirects, the last one to " + url->shown());
    }
    auto target = next(request, *url, **exchange);
    if (!target) return unexpected(target.error());
    if (request.same_origin && !target->same_origin(*url)) {
      return std::make_unique<Received>(*this, *url, std::move(*exchange));
    }
    (*exchange)->skip_short_body();
    keep(*url, **exchange);
    // Once another host has had a word, none gets it any more.
    with_authorization = with_authorization && target->same_origin(first);
    url = std::move(target);
  }
}

// Where the answer's Location leads.
Result<Url> Session::State::next(const SessionRequest& request, const Url& url,
                                 Exchange& exchange) {
  const auto headers = exchange.headers();
  auto target = follow(url, find_header(headers, "Location").value_or(""));
  const std::string where = request.method + " " + url.shown() + ": ";
  if (!target) {
    return fail(ErrorCode::kCorrupt,
                where + "a redirect that cannot be followed: " + target.error().message);
  }
  if (!target->user_info.empty()) {
    return fail(ErrorCode::kCorrupt, where + "a redirect to a URL with user and password");
  }
  auto permitted = connector_.permits(*target);
  if (permitted && url.tls() && !target->tls()) {
    permitted = fail(ErrorCode::kCorrupt, "from https:// to http://");
  }
  if (!permitted) {
    return fail(ErrorCode::kCorrupt, where + "a redirect to " + target->shown() +
                                         " that is not followed: " + permitted.error().message);
  }
  return target;
}

Session::State::Exchanged Session::State::ask(const SessionRequest& request, const Url& url,
                                              bool with_authorization) {
  const std::string where = request.method + " " + url.shown();
  const Patience patience{request.deadline.value_or(SteadyTime::max()), options_.stall_timeout,
                          options_.cutoff};
  const Outgoing outgoing{head_of(request, url, with_authorization), request.source,
                          request.method == "HEAD"};
  if (auto kept = pool_.take(origin_of(url))) {
    auto exchange = std::make_unique<Exchange>(std::move(kept), where, patience);
    const auto done = exchange->run(outgoing);
    if (done) return exchange;
    if (!exchange->lost_unheard()) return unexpected(done.error());
  }
  return ask_anew(url, where, patience, outgoing, request.connect_by);
}

Session::State::Exchanged Session::State::ask_anew(const Url& url, const std::string& where,
                                                   const Patience& patience,
                                                   const Outgoing& outgoing,
                                                   std::optional<SteadyTime> connect_by) {
  const auto until =
      std::min({patience.deadline, std::chrono::steady_clock::now() + options_.connect_timeout,
                connect_by.value_or(SteadyTime::max())});
  auto wire = connector_.connect(url, where, until);
  if (!wire) return unexpected(wire.error());
  auto exchange = std::make_unique<Exchange>(std::move(*wire), where, patience);
  if (auto done = exchange->run(outgoing); !done) return unexpected(done.error());
  return exchange;
}

Session::Session(SessionOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Session::~Session() = default;

void Session::trust(std::string ca_pem) { state_->trust(std::move(ca_pem)); }

Result<std::unique_ptr<Answer>> Session::start(const SessionRequest& request) {
  try {
    return state_->start(request);
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "an HTTP request: " + std::string(exception.what()));
  }
}

}  // namespace compilecache::http
