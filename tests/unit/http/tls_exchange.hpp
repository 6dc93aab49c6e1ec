#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/unit/http/certificates.hpp"

namespace compilecache::http::testing {

// Connects to that port of this machine, shows the certificate if there is one, and sends
// `request`. Returns everything until the server closes; empty when the handshake failed. It does
// not check who serves the port.
std::string tls_exchange(uint16_t port, const std::string& request,
                         const std::optional<Pair>& certificate);

}  // namespace compilecache::http::testing
