#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kube/cancellation.hpp"

// HTTP as the Kubernetes client needs it: one request and its answer, or a stream of lines. The
// transport knows the server, TLS and credentials; the request names only a path.

namespace compilecache::kube {

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // path and query, percent-encoded: "/api/v1/pods?limit=500"
  std::string accept = "application/json";
  std::string content_type;  // with a body
  std::string body;
  // From the call to the whole answer, connecting included; of a stream: until its headers.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  // Of a stream: the longest silence after its headers. With a bookmark each minute 150 s is much.
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(150);
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// How a stream came to its end.
struct StreamEnd {
  enum class Kind {
    kClosed,     // the server ended it properly
    kStopped,    // the line handler said that it has enough
    kCancelled,  // the caller cancelled
    kStatus,     // the answer was not 200; `response` holds it
    kRefused,    // no connection was made
    kTimeout,    // no headers within `timeout`, or silence for `idle_timeout`
    kBroken,     // cut in the middle
  };
  Kind kind = Kind::kClosed;
  HttpResponse response;  // of kStatus
  std::string message;    // for people; empty for kClosed, kStopped and kCancelled
};

// One line without its end; false to stop the stream.
using LineHandler = std::function<bool(std::string_view line)>;

// Thread-safe. Calls block the calling thread.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  // Whatever status the server answered with is a value. Errors: kUnavailable (no connection),
  // kTimeout, kIo (the connection broke), kUnauthorized (no credentials could be had), kCancelled.
  virtual Result<HttpResponse> send(const HttpRequest& request, const Cancellation& cancel) = 0;
  Result<HttpResponse> send(const HttpRequest& request) { return send(request, Cancellation()); }

  // Calls `on_line` in this thread for each line; the server is not read faster than lines are
  // taken. A last line without its end is not delivered when the stream broke.
  virtual StreamEnd stream(const HttpRequest& request, const LineHandler& on_line,
                           const Cancellation& cancel) = 0;
};

}  // namespace compilecache::kube
