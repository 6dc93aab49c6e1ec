// The examples in the headers of http/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <string>

#include "http/chunks.hpp"
#include "http/client.hpp"
#include "http/server.hpp"
#include "http/session.hpp"
#include "http/url.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::http_examples {

inline int client(const std::string& pem, const std::string& token) {
  http::Client client({.address = "10.96.0.17",
                       .port = 443,
                       .ca_pem = pem,
                       .server_name = "compilecache-agent-api.compilecache-system.svc"});
  auto response =
      client.send({.method = "POST", .target = "/v1/load", .body = "{}", .bearer_token = token});
  if (!response) return 1;
  if (response->status != 200) return 2;
  return 0;
}

inline void server(const std::string& chain_pem, const std::string& key_pem) {
  auto server = http::Server::start({.port = 8443, .tls = true},
                                    [](http::Request request, http::Responder respond) {
                                      respond(http::text_response(200, "ok"));
                                    });
  (*server)->set_certificate(chain_pem, key_pem);
  (*server)->drain();
  (*server)->stop(std::chrono::seconds(5));
}

inline int session(http::SteadyTime deadline, std::span<uint8_t> buffer) {
  http::Session session({.proxy = http::proxy_of_environment()});
  auto answer = session.start({.url = "https://registry.example.com/v2/", .deadline = deadline});
  if (!answer) return 1;
  if ((*answer)->status() == 401) return 2;
  auto count = (*answer)->read(buffer);
  return 0;
}

inline void proxy() {
  const auto proxy = http::proxy_of_environment();
  proxy.applies("registry.example.com", 443);
}

inline void url() {
  auto url = http::parse_url("https://registry.example.com/v2/?last=a");
  url->host_port();
  http::follow(*url, "../v3/");
}

inline bool chunks(std::string_view input, std::span<uint8_t> buffer) {
  http::ChunkReader chunks;
  auto step = chunks.read(input, buffer);
  if (chunks.failed()) return false;
  if (chunks.done()) return true;
  return false;
}

}  // namespace compilecache::http_examples

#pragma GCC diagnostic pop
