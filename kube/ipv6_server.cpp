#include "kube/ipv6_server.hpp"

#include <arpa/inet.h>

#include <array>

namespace compilecache::kube {

std::optional<Ipv6Server> ipv6_server(const std::string& url) {
  const size_t open = url.find("://[");
  const size_t close = url.find(']');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  const std::string scheme = url.substr(0, open);
  const size_t begin = open + 4;
  Ipv6Server server{.address = url.substr(begin, close - begin)};
  std::array<unsigned char, 16> bytes{};
  if (::inet_pton(AF_INET6, server.address.c_str(), bytes.data()) != 1) return std::nullopt;
  const size_t path = std::min(url.find('/', close), url.size());
  std::string port = url.substr(close + 1, path - close - 1);
  if (!port.empty() && (port.front() != ':' || port.size() == 1 ||
                        port.find_first_not_of("0123456789", 1) != std::string::npos)) {
    return std::nullopt;
  }
  server.host_header = "[" + server.address + "]" + port;
  if (port.empty()) port = scheme == "http" ? ":80" : ":443";
  server.bare_url = scheme + "://" + server.address + port + url.substr(path);
  return server;
}

}  // namespace compilecache::kube
