#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "http/message.hpp"

// The HTTPS server of the webhook and of the agent API, and the plain HTTP server of metrics and
// health. HTTP/1.1 with keep-alive; a handful of I/O threads, none for each connection.
//
//   auto server = http::Server::start({.port = 8443, .tls = true},
//                                     [](http::Request request, http::Responder respond) {
//                                       respond(http::text_response(200, "ok"));
//                                     });
//   (*server)->set_certificate(chain_pem, key_pem);   // any time again, without a restart
//   ...
//   (*server)->drain();                               // at SIGTERM: still serves
//   (*server)->stop(std::chrono::seconds(5));         // later: the listener closes, the rest ends
//
// No request can take the process down. One over a limit, too slow or not HTTP is answered with
// 4xx or cut off, and an exception that leaves the handler becomes a 500.

namespace compilecache::http {

// Answers one request. May be called from any thread, at once or later; only the first call counts.
// When the last copy is destroyed without an answer, the client gets 500.
class Responder {
 public:
  void operator()(Response response) const;

  struct Slot;
  explicit Responder(std::shared_ptr<Slot> slot);

 private:
  std::shared_ptr<Slot> slot_;
};

// Runs on an I/O thread, so it must not block: work that waits (for the API server, say) goes to a
// worker, together with the Responder.
using Handler = std::function<void(Request, Responder)>;

// Sizes and times beyond which a peer is refused. The defaults follow what API servers send: an
// AdmissionReview holds two objects of at most 3 MB plus the rest (controller-runtime
// pkg/webhook/admission/http.go: 7 MiB); Go's client keeps connections for 90 s.
struct Limits {
  size_t header_bytes = 64U << 10;
  size_t body_bytes = 7U << 20;
  // The memory of all bodies together, of requests until they are answered and of answers until
  // they are read; the first small_body_bytes of each do not count. Above it a larger request is
  // refused with 503, and so is one whose answer is larger. Most AdmissionReviews have about 10 kB.
  size_t large_bodies_bytes = 64U << 20;
  size_t small_body_bytes = 64U << 10;
  // At the limit a new connection replaces the one whose peer has been silent for longest:
  // between requests, or in the middle of a request, an answer or a handshake.
  size_t connections = 1024;
  std::chrono::milliseconds handshake{5000};
  std::chrono::milliseconds header{10000};   // from a request's first byte to its last header
  std::chrono::milliseconds body{30000};     // from the last header to the last byte
  std::chrono::milliseconds handler{60000};  // without an answer by then the client gets 503
  std::chrono::milliseconds write{30000};    // for the client to take the answer
  std::chrono::milliseconds idle{90000};     // between requests
};

struct ServerOptions {
  // An IP address. Empty: all addresses of both families ("::"), or all IPv4 ones on a machine
  // without IPv6.
  std::string address;
  uint16_t port = 0;  // 0: any free one, see Server::port()
  bool tls = true;    // TLS 1.2 or newer; until the first set_certificate() handshakes are refused
  // Authorities in PEM. Where there are any, clients are asked for a certificate signed by one of
  // them; a client without one is served all the same, and the handler decides
  // (Request::certificate).
  std::string client_ca = {};
  int threads = 2;
  Limits limits;
};

// Thread-safe. Ends its threads in the destructor.
class Server {
 public:
  // Listens and serves; fails with kInvalid for an unusable address or client_ca, kUnavailable when
  // the port is taken, kForbidden when it may not be opened.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] uint16_t port() const;

  // Certificate (leaf first, then intermediates) and private key for connections made from now on;
  // those that are open go on with what they have. kInvalid when the two are unusable or do not
  // belong together; then the one in use stays.
  Status set_certificate(const std::string& chain_pem, const std::string& key_pem);
  // Whether a certificate is in use (always, without TLS); without one the server is not ready.
  [[nodiscard]] bool has_certificate() const;

  // From now on every answer carries "Connection: close". Idle connections stay, since a request
  // may be on its way, and new ones are accepted. API servers continue to use a terminating pod for
  // a while (kubernetes#127335). So keep serving for 10 s or more before stop(), which closes idle
  // ones.
  void drain();

  // Closes the listener, lets requests under way end for at most `grace`, then cuts the rest.
  // True when nothing had to be cut.
  bool stop(std::chrono::milliseconds grace);

  // How long an I/O thread has been held up: each call posts an empty task to every thread, and the
  // answer is how long the oldest such task has waited. Zero while all threads serve. Call it now
  // and then.
  [[nodiscard]] std::chrono::milliseconds held_up() const;

  [[nodiscard]] size_t open_connections() const;
  [[nodiscard]] size_t requests_in_flight() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::http
