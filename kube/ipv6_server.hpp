#pragma once

#include <optional>
#include <string>

// A server's URL with an IPv6 literal for its host, in the forms that a request needs. Pure.
//
//   ipv6_server("https://[fd00::1]/k8s")->address      // "fd00::1"
//                                       ->host_header  // "[fd00::1]"
//                                       ->bare_url     // "https://fd00::1:443/k8s"

namespace compilecache::kube {

struct Ipv6Server {
  std::string address;
  std::string host_header;
  // Without brackets and always with a port: so cpprestsdk takes it apart rightly, and hands the
  // system's resolver an address that it knows (with brackets it does not).
  std::string bare_url;
};

// Nothing for URLs whose host is none, a broken one among them.
std::optional<Ipv6Server> ipv6_server(const std::string& url);

}  // namespace compilecache::kube
