#include "tests/support/name_proxy.hpp"

namespace compilecache::testing {
namespace {

// The "name:port" of "CONNECT name:port HTTP/1.1"; "": it is none.
std::string asked_for(const std::string& head) {
  constexpr std::string_view kConnect = "CONNECT ";
  if (!head.starts_with(kConnect)) return "";
  return head.substr(kConnect.size(), head.find(' ', kConnect.size()) - kConnect.size());
}

}  // namespace

NameProxy::NameProxy(std::map<std::string, uint16_t> names)
    : names_(std::move(names)), server_([this](Connection& client) { serve(client); }) {}

void NameProxy::serve(Connection& client) const {
  const auto found = names_.find(asked_for(client.read_head()));
  if (found == names_.end()) {
    client.send("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
  } else if (client.send("HTTP/1.1 200 OK\r\n\r\n")) {
    client.relay(found->second, "");
  }
}

}  // namespace compilecache::testing
