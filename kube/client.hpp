#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kube/http_transport.hpp"
#include "kube/json.hpp"
#include "kube/resource.hpp"

// The API server's REST interface on objects as JSON.
//
//   Client client(transport);
//   auto pod = client.get(resources::kPods, "ml", "web-1");
//   if (!pod && pod.error().code == ErrorCode::kNotFound) ...
//
// Errors keep the server's message. Codes: kNotFound (404), kAlreadyExists (409 of a create),
// kConflict (other 409), kExpired (410), kThrottled (429), kInvalid (400, 415, 422). kTooLarge
// (413), kUnauthorized (401), kForbidden (403), kTimeout (408, 504, or no answer). kUnavailable
// (other 5xx, or no connection), kIo (the connection broke), kCancelled.
//
// An answer of 429 or 5xx with Retry-After is tried again after that time, at most 10 times; a
// connection that broke is tried again for reads only. Source: client-go's rest/with_retry.go. A
// kept connection that the server has closed in the meantime is replaced, and the request is sent
// again, writes too. So a create may find its own object (kAlreadyExists): give objects that you
// create a name.

namespace compilecache::kube {

struct GetOptions {
  std::string subresource;
  bool metadata_only = false;  // PartialObjectMetadata: labels and annotations, no spec or status
};

struct ListOptions {
  std::string ns;  // empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  int limit = 0;  // 0: no limit
  std::string continue_token;
  std::string resource_version;
  std::string resource_version_match;
  bool metadata_only = false;
};

struct WatchOptions {
  std::string ns;
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;
  std::chrono::seconds timeout{300};                   // the server ends the watch then
  std::chrono::milliseconds idle_timeout{150 * 1000};  // silence after which it counts as dead
  std::chrono::milliseconds start_timeout{90 * 1000};  // proxies may hold headers back
  std::chrono::milliseconds tick{0};  // how often the handler is called in silence; 0: never
  // Begin with the present objects, then a bookmark (KEP-3157). Servers that cannot do this answer
  // 422.
  bool send_initial_events = false;
  bool metadata_only = false;
  // Ask for Kubernetes' protobuf, which is cheaper for both sides. Servers may answer in JSON all
  // the same, and do for custom resources. Not together with metadata_only.
  bool protobuf = false;
};

struct WriteOptions {
  std::string subresource;    // "status"
  std::string field_manager;  // empty: the client's
  bool dry_run = false;
};

enum class PatchType { kMerge, kJson, kStrategicMerge, kApply };

struct PatchOptions {
  std::string subresource;
  std::string field_manager;  // empty: the client's
  bool force = false;         // of kApply: take fields over from other managers
  bool dry_run = false;
};

struct DeleteOptions {
  std::string uid;               // delete only the object with it; another uid gives kConflict
  std::string resource_version;  // delete only that state of it
  std::string propagation;       // "Background", "Foreground", "Orphan"; empty: the default
  std::optional<int> grace_period_seconds;
  bool dry_run = false;
};

struct ClientOptions {
  std::string field_manager = "compilecache-operator";
  std::chrono::milliseconds timeout = std::chrono::seconds(30);  // of each try
  int max_retries = 10;
  // Ends calls and waits early; they return kCancelled.
  Cancellation cancel;
  // Waits between tries and returns true when cancelled. Empty: waits on `cancel`. For tests.
  std::function<bool(Duration)> wait;
};

// Thread-safe. Calls block; no call throws.
class Client {
 public:
  using Json = nlohmann::json;

  explicit Client(std::shared_ptr<HttpTransport> transport, ClientOptions options = {});

  // Clients with the same connection and credentials but other options: a shorter timeout for
  // elections, a cancellation for work that is stopped by itself.
  [[nodiscard]] Client with_timeout(std::chrono::milliseconds timeout, int max_retries) const;
  [[nodiscard]] Client with_cancel(const Cancellation& cancel) const;

  Result<Json> get(const Resource& resource, const std::string& ns, const std::string& name,
                   const GetOptions& options = {}) const;
  // One page, object by object, so that its size does not matter. `begin` is called first, and
  // again when the page has to be requested again: items before that do not count. It takes at most
  // 65 s (the server gives up after 60), and fails after a silence as long as the client's timeout.
  struct PageHandler {
    std::function<void()> begin;
    std::function<void(Json item)> item;
  };
  Result<ListHead> list(const Resource& resource, const ListOptions& options, const Fields& fields,
                        const PageHandler& handler) const;
  // One page: {"metadata": {"resourceVersion", "continue"}, "items": [...]}, without
  // managedFields.
  Result<Json> list(const Resource& resource, const ListOptions& options) const;
  // All pages, of 500 objects each. Starts again without pages when the server has forgotten the
  // list in between (410).
  Result<Json> list_all(const Resource& resource, ListOptions options) const;

  // Namespace and name are taken from the object's metadata. An empty body of the answer is null.
  Result<Json> create(const Resource& resource, const Json& object,
                      const WriteOptions& options = {}) const;
  // A compare-and-swap when the object carries its resourceVersion, as everything read does.
  Result<Json> update(const Resource& resource, const Json& object,
                      const WriteOptions& options = {}) const;
  Result<Json> update_status(const Resource& resource, const Json& object,
                             WriteOptions options = {}) const;
  Result<Json> patch(const Resource& resource, const std::string& ns, const std::string& name,
                     PatchType type, const Json& patch, const PatchOptions& options = {}) const;
  // Server-side apply; the object says apiVersion, kind, namespace and name.
  Result<Json> apply(const Resource& resource, const Json& object,
                     const PatchOptions& options = {}) const;
  Result<Json> remove(const Resource& resource, const std::string& ns, const std::string& name,
                      const DeleteOptions& options = {}) const;

  // A request to any path: /version, a pod's log, a pod's eviction.
  Result<std::string> raw(const std::string& method, const std::string& target,
                          const std::string& body = {}) const;

  // Lines as the server sends them: {"type": "ADDED", "object": {...}}; empty ones are ticks. In
  // protobuf an event (protobuf::parse_event) stands for a line. Not tried again.
  StreamEnd watch(const Resource& resource, const WatchOptions& options, const LineHandler& on_line,
                  const Cancellation& cancel) const;

  // Waits as between tries; returns true when cancelled.
  [[nodiscard]] bool pause(Duration time) const;
  [[nodiscard]] const ClientOptions& options() const { return options_; }

 private:
  using Send = std::function<Result<HttpResponse>(const HttpRequest&)>;

  Result<HttpResponse> retry(const HttpRequest& request, const Send& send) const;
  Result<HttpResponse> send(HttpRequest request) const;
  Result<Json> send_json(HttpRequest request, const std::string& doing) const;
  Result<Json> write(const char* method, const std::string& target, const std::string& content_type,
                     const Json& body, const std::string& doing) const;
  [[nodiscard]] const std::string& manager(const std::string& chosen) const;

  std::shared_ptr<HttpTransport> transport_;
  ClientOptions options_;
};

// Percent-encodes one part of a path or a query's value.
std::string percent_encode(std::string_view text);

// The Error behind an answer that is no success; `doing` begins its message.
Error api_error(const HttpResponse& response, const std::string& doing);

}  // namespace compilecache::kube
