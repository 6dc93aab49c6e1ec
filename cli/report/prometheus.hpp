#pragma once

#include <string>

#include "base/error.hpp"

// A Prometheus, or what speaks as one, that a user names by a URL. It is asked without credentials:
// by https:// with the machine's authorities and the proxy of the environment, or by http://.
//
//   auto answer = ask_prometheus("http://localhost:9090", "/api/v1/query?query=up");
//   if (answer) std::cout << answer->status << answer->body;
//
// Thread-safe.

namespace compilecache::cli {

struct PrometheusAnswer {
  int status = 0;
  std::string body;
};

// kInvalid: not the URL of a server, or with a password, which would end up in a report.
Status check_prometheus_url(const std::string& url);

// Blocks, 30 seconds at most. An answer of any status is a value; without one the error says why
// (http/session.hpp), kTooLarge among others.
Result<PrometheusAnswer> ask_prometheus(const std::string& url, const std::string& target);

}  // namespace compilecache::cli
