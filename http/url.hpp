#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

// URLs of http and https, taken apart strictly: what could be read in two ways is refused, since a
// host decides who gets credentials.
//
//   auto url = http::parse_url("https://registry.example.com/v2/?last=a");
//   url->host_port();                        // "registry.example.com:443"
//   http::follow(*url, "../v3/");            // where a Location leads

namespace compilecache::http {

struct Url {
  std::string scheme;     // "http" or "https"
  std::string user_info;  // "user:password", percent-encoded; of proxies
  std::string host;       // in small letters; an IPv6 address without brackets, in its usual form
  uint16_t port = 0;
  std::string target = "/";  // path and query, percent-encoded; no fragment

  [[nodiscard]] bool tls() const { return scheme == "https"; }
  // "example.com:443", "[::1]:8443".
  [[nodiscard]] std::string host_port() const;
  // The same as the Host header has it: without the port that the scheme implies.
  [[nodiscard]] std::string authority() const;
  // The whole, without user and password.
  [[nodiscard]] std::string text() const;
  // For messages: also without the query, which may hold a signature that is good for a while.
  [[nodiscard]] std::string shown() const;
  [[nodiscard]] bool same_origin(const Url& other) const {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
};

// kInvalid: not an absolute URL of http or https, or with characters that have to be encoded.
Result<Url> parse_url(std::string_view text);

// Where the Location of an answer from `base` leads: absolute, or relative in any of its ways.
Result<Url> follow(const Url& base, std::string_view location);

// Whether the text is an IPv4 or IPv6 address (without brackets).
bool is_address(const std::string& host);

}  // namespace compilecache::http
