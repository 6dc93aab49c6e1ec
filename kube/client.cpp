#include "kube/client.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "kube/protobuf.hpp"

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;

constexpr int kListPage = 500;                             // client-go's tools/pager
constexpr Duration kAgainAfter = std::chrono::seconds(1);  // when Retry-After is no number
// The server gives up after 60 s (its --request-timeout).
constexpr std::chrono::seconds kListTimeout{65};

constexpr char kJsonType[] = "application/json";
constexpr char kProtobufOrJson[] =
    "application/vnd.kubernetes.protobuf;stream=watch, application/json";

// Collects "?a=b&c=d".
class Query {
 public:
  void add(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    text_ += text_.empty() ? '?' : '&';
    text_ += name;
    text_ += '=';
    text_ += percent_encode(value);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string describe(const std::string& verb, const Resource& resource, const std::string& ns,
                     const std::string& name) {
  std::string text = verb + " " + resource.plural;
  if (!resource.group.empty()) text += "." + resource.group;
  const std::string key = object_key(ns, name);
  return key.empty() ? text : text + " " + key;
}

std::string accept_header(bool metadata_only, bool list) {
  if (!metadata_only) return kJsonType;
  return std::string("application/json;as=PartialObjectMetadata") + (list ? "List" : "") +
         ";g=meta.k8s.io;v=v1";
}

const char* patch_content_type(PatchType type) {
  switch (type) {
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kStrategicMerge:
      return "application/strategic-merge-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";  // JSON is YAML
  }
  return "";
}

NamespacedName name_of(const Json& object) {
  return {string_at(object, {"metadata", "namespace"}), string_at(object, {"metadata", "name"})};
}

// Replaces the characters that are not UTF-8 instead of throwing.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Duration> retry_after(const HttpResponse& response) {
  if (response.status != 429 && response.status < 500) return std::nullopt;
  auto header = response.headers.find("retry-after");
  if (header == response.headers.end()) return std::nullopt;
  int seconds = 0;
  const std::string& text = header->second;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || seconds < 0) return kAgainAfter;
  return std::chrono::seconds(seconds);
}

ErrorCode code_of(int status, const std::string& reason) {
  switch (status) {
    case 400:
    case 415:
    case 422:
      return ErrorCode::kInvalid;
    case 401:
      return ErrorCode::kUnauthorized;
    case 403:
      return ErrorCode::kForbidden;
    case 404:
      return ErrorCode::kNotFound;
    case 408:
    case 504:
      return ErrorCode::kTimeout;
    case 409:
      return reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kConflict;
    case 410:
      return ErrorCode::kExpired;
    case 413:
      return ErrorCode::kTooLarge;
    case 429:
      return ErrorCode::kThrottled;
    default:
      return status >= 500 ? ErrorCode::kUnavailable : ErrorCode::kInvalid;
  }
}

// Admission refuses with the same status as the authorizer, whose words are: User "x" cannot create
// resource "pods".
std::string advice(ErrorCode code, const std::string& message) {
  const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
  if (code == ErrorCode::kUnauthorized) return "; check the token or client certificate";
  if (code != ErrorCode::kForbidden) return "";
  if (says("exceeded quota") || says("failed quota"))
    return "; raise that ResourceQuota, or delete what takes it up";
  return says(" cannot ") ? "; grant it in the program's role" : "";
}

}  // namespace

std::string percent_encode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kHex[byte >> 4];
      encoded += kHex[byte & 15];
    }
  }
  return encoded;
}

Error api_error(const HttpResponse& response, const std::string& doing) {
  const Json body = protobuf::is_protobuf(response.body)
                        ? protobuf::parse_status(response.body)
                        : Json::parse(response.body, nullptr, false);
  const bool is_status = string_at(body, {"kind"}) == "Status";
  const std::string reason = is_status ? string_at(body, {"reason"}) : "";
  std::string message = is_status ? string_at(body, {"message"}) : response.body.substr(0, 300);
  if (message.empty()) message = "no explanation";
  const ErrorCode code = code_of(response.status, reason);
  return Error{code, doing + ": " + message + " (" + std::to_string(response.status) +
                         (reason.empty() ? "" : " " + reason) + ")" + advice(code, message)};
}

Client::Client(std::shared_ptr<HttpTransport> transport, ClientOptions options)
    : transport_(std::move(transport)), options_(std::move(options)) {}

Client Client::with_timeout(std::chrono::milliseconds timeout, int max_retries) const {
  Client other = *this;
  other.options_.timeout = timeout;
  other.options_.max_retries = max_retries;
  return other;
}

Client Client::with_cancel(const Cancellation& cancel) const {
  Client other = *this;
  other.options_.cancel = cancel;
  return other;
}

Result<Json> Client::get(const Resource& resource, const std::string& ns, const std::string& name,
                         const GetOptions& options) const {
  HttpRequest request;
  request.target = resource.path(ns, name, options.subresource);
  request.accept = accept_header(options.metadata_only, false);
  return send_json(std::move(request), describe("getting", resource, ns, name));
}

Result<ListHead> Client::list(const Resource& resource, const ListOptions& options,
                              const Fields& fields, const PageHandler& handler) const {
  Query query;
  query.add("labelSelector", options.label_selector);
  query.add("fieldSelector", options.field_selector);
  if (options.limit > 0) query.add("limit", std::to_string(options.limit));
  query.add("continue", options.continue_token);
  query.add("resourceVersion", options.resource_version);
  query.add("resourceVersionMatch", options.resource_version_match);
  HttpRequest request;
  request.target = resource.path(options.ns) + query.text();
  request.accept = accept_header(options.metadata_only, true);
  // Compressed answers save bandwidth; besides, older servers send an uncompressed list in one
  // chunk, however large.
  request.compressed = true;
  request.timeout = std::max<std::chrono::milliseconds>(kListTimeout, options_.timeout);
  request.idle_timeout = options_.timeout;

  const std::string doing = describe("listing", resource, options.ns, "");
  ListHead head;
  const auto on_body = [&](BodyReader& body) -> Status {
    handler.begin();
    Result<ListHead> list = read_list(body, fields, handler.item);
    if (!list) return unexpected(list.error());
    head = std::move(*list);
    return {};
  };
  Result<HttpResponse> response = retry(request, [&](const HttpRequest& again) {
    return transport_->fetch(again, on_body, options_.cancel);
  });
  if (!response) return unexpected(response.error().with(doing));
  if (response->status / 100 != 2) return unexpected(api_error(*response, doing));
  return head;
}

Result<Json> Client::list(const Resource& resource, const ListOptions& options) const {
  Json items = Json::array();
  const PageHandler handler{[&] { items.clear(); },
                            [&](Json item) { items.push_back(std::move(item)); }};
  Result<ListHead> head = list(resource, options, Fields(), handler);
  if (!head) return unexpected(head.error());
  return Json{{"metadata",
               {{"resourceVersion", head->resource_version}, {"continue", head->continue_token}}},
              {"items", std::move(items)}};
}

Result<Json> Client::list_all(const Resource& resource, ListOptions options) const {
  if (options.limit == 0) options.limit = kListPage;
  Result<Json> all = list(resource, options);
  while (all) {
    options.continue_token = string_at(*all, {"metadata", "continue"});
    if (options.continue_token.empty()) break;
    options.resource_version.clear();
    options.resource_version_match.clear();
    Result<Json> page = list(resource, options);
    if (!page && page.error().code == ErrorCode::kExpired) {
      options.limit = 0;
      options.continue_token.clear();
      return list(resource, options);
    }
    if (!page) return page;
    for (Json& item : (*page)["items"]) (*all)["items"].push_back(std::move(item));
    (*all)["metadata"]["continue"] = string_at(*page, {"metadata", "continue"});
  }
  return all;
}

Result<Json> Client::create(const Resource& resource, const Json& object,
                            const WriteOptions& options) const {
  const NamespacedName name = name_of(object);
  Query query;
  query.add("fieldManager", manager(options.field_manager));
  if (options.dry_run) query.add("dryRun", "All");
  return write("POST", resource.path(name.ns) + query.text(), kJsonType, object,
               describe("creating", resource, name.ns, name.name));
}

Result<Json> Client::update(const Resource& resource, const Json& object,
                            const WriteOptions& options) const {
  const NamespacedName name = name_of(object);
  Query query;
  query.add("fieldManager", manager(options.field_manager));
  if (options.dry_run) query.add("dryRun", "All");
  const std::string verb =
      options.subresource.empty() ? "updating" : "updating " + options.subresource + " of";
  return write("PUT", resource.path(name.ns, name.name, options.subresource) + query.text(),
               kJsonType, object, describe(verb, resource, name.ns, name.name));
}

Result<Json> Client::update_status(const Resource& resource, const Json& object,
                                   WriteOptions options) const {
  options.subresource = "status";
  return update(resource, object, options);
}

Result<Json> Client::patch(const Resource& resource, const std::string& ns, const std::string& name,
                           PatchType type, const Json& patch, const PatchOptions& options) const {
  Query query;
  query.add("fieldManager", manager(options.field_manager));
  if (type == PatchType::kApply && options.force) query.add("force", "true");
  if (options.dry_run) query.add("dryRun", "All");
  return write("PATCH", resource.path(ns, name, options.subresource) + query.text(),
               patch_content_type(type), patch, describe("patching", resource, ns, name));
}

Result<Json> Client::apply(const Resource& resource, const Json& object,
                           const PatchOptions& options) const {
  const NamespacedName name = name_of(object);
  return patch(resource, name.ns, name.name, PatchType::kApply, object, options);
}

Result<Json> Client::remove(const Resource& resource, const std::string& ns,
                            const std::string& name, const DeleteOptions& options) const {
  Json body = {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}};
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  if (!options.propagation.empty()) body["propagationPolicy"] = options.propagation;
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  if (options.dry_run) body["dryRun"] = Json::array({"All"});
  return write("DELETE", resource.path(ns, name), kJsonType, body,
               describe("deleting", resource, ns, name));
}

Result<std::string> Client::raw(const std::string& method, const std::string& target,
                                const std::string& body) const {
  HttpRequest request;
  request.method = method;
  request.target = target;
  request.accept = "application/json, */*";
  if (!body.empty()) request.content_type = kJsonType;
  request.body = body;
  const std::string doing = method + " " + target;
  Result<HttpResponse> response = send(std::move(request));
  if (!response) return unexpected(response.error().with(doing));
  if (response->status / 100 != 2) return unexpected(api_error(*response, doing));
  return std::move(response->body);
}

StreamEnd Client::watch(const Resource& resource, const WatchOptions& options,
                        const LineHandler& on_line, const Cancellation& cancel) const {
  Query query;
  query.add("watch", "1");
  query.add("resourceVersion", options.resource_version);
  query.add("allowWatchBookmarks", "true");
  query.add("timeoutSeconds", std::to_string(options.timeout.count()));
  if (options.send_initial_events) {
    query.add("sendInitialEvents", "true");
    query.add("resourceVersionMatch", "NotOlderThan");
  }
  query.add("labelSelector", options.label_selector);
  query.add("fieldSelector", options.field_selector);
  HttpRequest request;
  request.target = resource.path(options.ns) + query.text();
  request.accept = options.protobuf ? kProtobufOrJson : accept_header(options.metadata_only, false);
  request.timeout = options.start_timeout;
  request.idle_timeout = options.idle_timeout;
  request.tick = options.tick;
  return transport_->stream(request, on_line, cancel);
}

Result<HttpResponse> Client::retry(const HttpRequest& request, const Send& send_once) const {
  const bool read_only = request.method == "GET";
  for (int tries = 0;; ++tries) {
    Result<HttpResponse> response = send_once(request);
    const bool last = tries >= options_.max_retries;
    std::optional<Duration> again;
    if (response) {
      again = retry_after(*response);
    } else if (read_only && response.error().code == ErrorCode::kIo) {
      again = tries == 0 ? Duration(0) : kAgainAfter;
    }
    if (!again || last) return response;
    if (pause(*again)) {
      return fail(ErrorCode::kCancelled, "given up while waiting for the API server");
    }
  }
}

bool Client::pause(Duration time) const {
  return options_.wait ? options_.wait(time) : options_.cancel.wait_for(time);
}

Result<HttpResponse> Client::send(HttpRequest request) const {
  request.timeout = options_.timeout;
  return retry(request,
               [&](const HttpRequest& again) { return transport_->send(again, options_.cancel); });
}

Result<Json> Client::write(const char* method, const std::string& target,
                           const std::string& content_type, const Json& body,
                           const std::string& doing) const {
  HttpRequest request;
  request.method = method;
  request.target = target;
  request.content_type = content_type;
  request.body = dump(body);
  return send_json(std::move(request), doing);
}

const std::string& Client::manager(const std::string& chosen) const {
  return chosen.empty() ? options_.field_manager : chosen;
}

Result<Json> Client::send_json(HttpRequest request, const std::string& doing) const {
  Result<HttpResponse> response = send(std::move(request));
  if (!response) return unexpected(response.error().with(doing));
  if (response->status / 100 != 2) return unexpected(api_error(*response, doing));
  if (response->body.empty()) return Json();
  Json json = parse_json(response->body);
  if (json.is_discarded()) {
    return fail(ErrorCode::kUnavailable,
                doing + ": the answer is not JSON; is this an API server?");
  }
  return json;
}

}  // namespace compilecache::kube
