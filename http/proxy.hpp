#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

// Which proxy leads to a host, as curl and Go read HTTPS_PROXY and NO_PROXY.
//
//   const auto proxy = http::proxy_of_environment();
//   proxy.applies("registry.example.com", 443);    // false where NO_PROXY has ".example.com"

namespace compilecache::http {

struct Proxy {
  std::string url;                    // "http://user:password@proxy:3128"; empty: none
  std::vector<std::string> no_proxy;  // names, ".suffix", "*", addresses, CIDR blocks, "host:port"

  // Loopback never goes through a proxy.
  [[nodiscard]] bool applies(const std::string& host, int port) const;
};

// HTTPS_PROXY and NO_PROXY, in capitals or small letters.
Proxy proxy_of_environment();

}  // namespace compilecache::http
