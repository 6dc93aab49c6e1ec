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
  bool compressed = false;  // ask for a gzip-ed answer; readers see the plain text
  // The time from the call to the whole answer, connecting included; for a stream: to its headers.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  // The longest silence; for a stream: after its headers. Watches get a bookmark each minute, so
  // 150 s is ample.
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(150);
  // For a stream: how often its handler is called while there is silence; 0: not at all.
  std::chrono::milliseconds tick{0};
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// How a stream ended.
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
  HttpResponse response;  // for kStatus
  std::string message;    // for people; empty for kClosed, kStopped and kCancelled
};

// Takes one line without its end, or an empty one for a tick; returns false to stop the stream. An
// answer in Kubernetes' protobuf has frames in place of lines, which come without the length before
// them.
using LineHandler = std::function<bool(std::string_view line)>;

// The body of an answer, as it comes in.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // The next piece, which is good until the next call; empty at the end. Errors are those of
  // fetch().
  virtual Result<std::string_view> next() = 0;
};

// Takes the body of an answer; its error becomes that of the call.
using BodyHandler = std::function<Status(BodyReader&)>;

// Thread-safe. Calls block the calling thread.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  // Hands the body of an answer 2xx to `on_body`, in this thread, while it comes in. Only a piece
  // of it is in memory at a time, and a slow `on_body` slows reading down. Other answers are
  // given back whole. An answer of any status is a value. Errors: kUnavailable (no connection),
  // kTimeout, kIo (the connection broke), kUnauthorized (no credentials could be had), kCancelled.
  virtual Result<HttpResponse> fetch(const HttpRequest& request, const BodyHandler& on_body,
                                     const Cancellation& cancel) = 0;
  // Does the same with the whole body in the answer, at most 1 GiB.
  Result<HttpResponse> send(const HttpRequest& request, const Cancellation& cancel);

  // Calls `on_line` in this thread for each line; the server is not read faster than lines are
  // taken. A last line without its end is not delivered when the stream broke.
  virtual StreamEnd stream(const HttpRequest& request, const LineHandler& on_line,
                           const Cancellation& cancel) = 0;
};

}  // namespace compilecache::kube
