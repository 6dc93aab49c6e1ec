#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cutoff.hpp"
#include "base/error.hpp"
#include "http/message.hpp"
#include "http/proxy.hpp"

// An HTTP client for servers that are named by URLs: registries, and their redirects. It
// resolves names, keeps connections, goes through proxies and moves bodies as streams both ways.
// (`client.hpp` is the smaller one, for the operator's API at a known address.)
//
//   http::Session session({.proxy = http::proxy_of_environment()});
//   auto answer = session.start({.url = "https://registry.example.com/v2/", .deadline = deadline});
//   if (!answer) ...                          // no answer: see the error codes below
//   if ((*answer)->status() == 401) ...       // an answer of any status is a value
//   auto count = (*answer)->read(buffer);     // until it is 0

namespace compilecache::http {

using SteadyTime = std::chrono::steady_clock::time_point;

struct SessionOptions {
  std::string ca_pem;              // trusted too
  bool system_authorities = true;  // trust what the machine trusts (SSL_CERT_FILE, /etc/ssl/certs)
  // Where to connect to for this "host:port" of a URL, instead of resolving it: an IP address. The
  // certificate still has to name the host.
  std::string fixed_host;
  std::string fixed_address;
  // http:// is spoken to these "host:port" alone; everything else has to be https. Loopback for
  // tests, or what an administrator lists.
  std::vector<std::string> plain_hosts;
  Proxy proxy;
  std::chrono::milliseconds connect_timeout{5000};  // name, TCP, proxy and TLS handshake together
  std::chrono::milliseconds stall_timeout{15000};   // without a byte either way
  size_t most_idle_connections = 4;
  std::chrono::milliseconds idle_timeout{60000};  // a connection kept for longer is not used again
  // Requests and answers, also those under way, end by then: soon after it is set, where that is
  // later. Null: there is none. Has to outlive the session.
  const Cutoff* cutoff = nullptr;
};

// The bytes of a request's body, in order.
class BodySource {
 public:
  virtual ~BodySource() = default;
  [[nodiscard]] virtual uint64_t size() const = 0;
  // Fills `bytes` from `offset` on, completely. Called again from 0 when the request is repeated.
  virtual Status read_at(std::span<uint8_t> bytes, uint64_t offset) = 0;
};

struct SessionRequest {
  std::string method = "GET";
  std::string url;               // "https://host[:port]/path?query", percent-encoded
  Headers headers;               // Authorization goes to this URL's scheme, host and port alone
  std::string body;              // small ones; or
  BodySource* source = nullptr;  // streamed, with Content-Length
  // The body is a secret: a redirect to another scheme, host or port is not followed, but is the
  // answer.
  bool same_origin = false;
  std::optional<SteadyTime>
      deadline;  // for all of it, redirects included; none: stalls alone end it
  std::optional<SteadyTime> connect_by;  // for a connection, where connect_timeout is longer
};

// An answer whose body is being received. Destroyed before its end, its connection is closed. Not
// thread-safe. The session must outlive it.
class Answer {
 public:
  virtual ~Answer() = default;
  [[nodiscard]] virtual int status() const = 0;
  [[nodiscard]] virtual const Headers& headers() const = 0;
  [[nodiscard]] virtual const std::string& url() const = 0;  // after redirects
  // The next bytes of the body; 0 at its end. kUnavailable: cut off before its announced end;
  // kCancelled: by the session's cutoff.
  virtual Result<size_t> read(std::span<uint8_t> bytes) = 0;

  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const {
    return find_header(headers(), name);
  }
};

// Reads the rest of the body. kTooLarge: it has more than `limit` bytes.
inline Result<std::string> read_all(Answer& answer, size_t limit) {
  std::string body;
  std::array<uint8_t, 16U << 10> buffer{};
  for (;;) {
    const auto count = answer.read(buffer);
    if (!count) return unexpected(count.error());
    if (*count == 0) return body;
    if (*count > limit - body.size()) {
      return fail(ErrorCode::kTooLarge, "the answer of " +
                                            answer.url().substr(0, answer.url().find('?')) +
                                            " has more than " + std::to_string(limit) + " bytes");
    }
    body.append(reinterpret_cast<const char*>(buffer.data()), *count);
  }
}

// Thread-safe; requests on several threads use a connection each.
class Session {
 public:
  explicit Session(SessionOptions options);
  ~Session();

  // Sends the request and receives the answer's head. GET and HEAD follow up to five redirects,
  // other methods 307 and 308 alone; never from https to http, and without Authorization where
  // scheme, host or port change. A kept connection that the server had closed is replaced once.
  // A server that answers while the body is still being sent is read.
  //   kTimeout       connecting, a stall, or the deadline
  //   kUnavailable   not resolved, refused, unreachable, or cut off
  //   kUnauthorized  the server could not prove to be the URL's host
  //   kCorrupt       what came is not HTTP, or redirects without end
  //   kInvalid       the URL or the authorities cannot be used
  //   kCancelled     the session's cutoff has passed
  //   and the error of `source`, as it came
  Result<std::unique_ptr<Answer>> start(const SessionRequest& request);
  // Trusts these authorities in place of the options' ca_pem from the next request on, which needs
  // a new connection. Running exchanges continue.
  void trust(std::string ca_pem);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace compilecache::http
