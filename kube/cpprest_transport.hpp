#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kube/config.hpp"
#include "kube/http_transport.hpp"

// The HttpTransport on cpprestsdk's client.

namespace compilecache::kube {

struct TransportOptions {
  std::string user_agent;  // empty: "compilecache/VERSION"
};

// Makes no connection yet. Errors: certificates or keys that cannot be read. The library's threads
// (two, for all transports of the process) only move bytes; each call blocks its own thread.
Result<std::shared_ptr<HttpTransport>> make_transport(const Config& config,
                                                      const TransportOptions& options = {},
                                                      const Clock& clock = SystemClock::instance());

}  // namespace compilecache::kube
