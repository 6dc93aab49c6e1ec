#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "base/error.hpp"
#include "http/message.hpp"

// A small blocking HTTPS client for the agent, which calls the operator's API a few times in its
// life. One connection for each call, no threads, no name resolution. The agent is given an
// address, since pods on the host's network have no cluster DNS, and the name to check the
// certificate against.
//
//   http::Client client({.address = "10.96.0.17", .port = 443, .ca_pem = pem,
//                        .server_name = "compilecache-agent-api.compilecache-system.svc"});
//   auto response = client.send({.method = "POST", .target = "/v1/load",
//                                .body = "{}", .bearer_token = token});
//   if (!response) ...            // no answer: see the error codes below
//   if (response->status != 200) ...  // an answer, but of a failure

namespace compilecache::http {

struct ClientOptions {
  std::string address;  // an IPv4 or IPv6 address
  uint16_t port = 443;
  std::string ca_pem;       // one or more certificates; nothing else is trusted
  std::string server_name;  // a DNS name or an address; must be in the server's certificate
  std::chrono::milliseconds connect_timeout{2000};  // for TCP and the TLS handshake together
  std::chrono::milliseconds total_timeout{10000};   // for the whole call, connecting included
  size_t max_response_bytes = 8U << 20;
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";  // path and query, percent-encoded
  std::string body;
  std::string content_type = "application/json";  // sent when there is a body
  std::string bearer_token;                       // sent when not empty
  // Replaces ClientOptions::total_timeout for this call.
  std::optional<std::chrono::milliseconds> timeout;
  // Ends the call at once, with kUnavailable.
  std::stop_token stop = {};
};

// Thread-safe: calls share nothing but the options.
class Client {
 public:
  explicit Client(ClientOptions options);

  // An answer of any status is a value. Where there is none the error is:
  //   kTimeout       the time was up, connecting or waiting
  //   kUnavailable   refused, unreachable, or cut off before the answer was whole
  //   kUnauthorized  the server could not prove to be `server_name` by `ca_pem`
  //   kTooLarge      the answer is over max_response_bytes
  //   kCorrupt       what came is not HTTP
  //   kInvalid       the options cannot be used
  // Retrying makes sense only after kTimeout and kUnavailable. A request may have been carried out
  // although no answer came.
  [[nodiscard]] Result<Response> send(const ClientRequest& request) const;

 private:
  ClientOptions options_;
};

}  // namespace compilecache::http
