#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// HTTP messages as plain data, shared by the server and the client.

namespace compilecache::http {

// Header fields in the order they came. Names are compared without regard to case.
using Headers = std::vector<std::pair<std::string, std::string>>;

// The first field of that name.
std::optional<std::string_view> find_header(const Headers& headers, std::string_view name);

// The certificate that a client presented when it connected (ServerOptions::client_ca).
enum class ClientCertificate {
  kNone,
  kUntrusted,  // signed by somebody else, expired, or for another use
  kTrusted,
};

// A client's request.
struct Request {
  std::string method;  // "GET", "POST", ...
  std::string path;    // "/v1/saves/abc", percent-decoded, without the query
  std::string query;   // "timeout=3s&x=1", as it was sent, without "?"
  Headers headers;
  std::string body;
  std::string peer;  // the other side's address and port, for the log
  ClientCertificate certificate = ClientCertificate::kNone;
  // The body's share of the server's budget: keep it as long as the body.
  std::shared_ptr<const void> counted;

  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const {
    return find_header(headers, name);
  }
  // The percent-decoded value of a query parameter.
  [[nodiscard]] std::optional<std::string> query_parameter(std::string_view name) const;
  // The token of "Authorization: Bearer TOKEN".
  [[nodiscard]] std::optional<std::string_view> bearer_token() const;
};

// An answer. Content-Length, Connection and Date are the sender's business, not the handler's.
struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers;  // further ones, such as Retry-After

  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const {
    return find_header(headers, name);
  }
};

// An answer of one line of text, for health checks and errors.
Response text_response(int status, std::string line);

// Decodes percent-encoding ("%2F", and "+" where plus_is_space); nothing for a broken escape.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

}  // namespace compilecache::http
