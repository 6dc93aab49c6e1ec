#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/unit/http/certificates.hpp"

namespace compilecache::http::testing {

// Connects to that port of this machine, whoever serves it, shows the certificate if there is one,
// sends `request` and returns all that comes back until the server closes; empty when the
// handshake failed.
std::string tls_exchange(uint16_t port, const std::string& request,
                         const std::optional<Pair>& certificate);

}  // namespace compilecache::http::testing
