#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/connections.hpp"

// A CONNECT proxy on loopback that knows names of a cluster: programs that use HTTPS_PROXY reach
// servers on this machine by them, with TLS from end to end.
//
//   NameProxy proxy({{"compilecache-registry.compilecache-system.svc:5000", port}});
//   run_process({"/usr/bin/env", "HTTPS_PROXY=" + proxy.url(), "skopeo", "inspect", image});
//
// Other names are refused with 502.

namespace compilecache::testing {

class NameProxy {
 public:
  // Ports of this machine by "name:port".
  explicit NameProxy(std::map<std::string, uint16_t> names);

  [[nodiscard]] std::string url() const { return "http://" + server_.host(); }

 private:
  void serve(Connection& client) const;

  const std::map<std::string, uint16_t> names_;
  ConnectionServer server_;
};

}  // namespace compilecache::testing
