#include "tests/simulation/cluster/api_server.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "base/base64.hpp"
#include "http/message.hpp"
#include "http/responder.hpp"
#include "tests/simulation/network/mailbox.hpp"
#include "tests/simulation/os/scheduler.hpp"

namespace compilecache::simulation {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr char kSeparator = '|';
constexpr char kAudience[] = "compilecache.dev/operator";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

testing::FakeRequest as_fake(const kube::HttpRequest& from) {
  testing::FakeRequest request;
  request.method = from.method;
  request.body = from.body;
  request.headers["content-type"] = from.content_type;
  const size_t query = from.target.find('?');
  request.path = http::percent_decode(from.target.substr(0, query)).value_or("");
  if (query == std::string::npos) return request;
  for (const std::string& pair : split(from.target.substr(query + 1), '&')) {
    const size_t equals = pair.find('=');
    const std::string value = equals == std::string::npos ? "" : pair.substr(equals + 1);
    request.query[http::percent_decode(pair.substr(0, equals)).value_or("")] =
        http::percent_decode(value).value_or("");
  }
  return request;
}

// Selectors of the form "label" and "label=value" are all that the operator uses.
bool is_selected(const testing::FakeRequest& request, const Json& object) {
  const std::string selector = request.parameter("labelSelector");
  if (selector.empty()) return true;
  const Json labels = object.value(Json::json_pointer("/metadata/labels"), Json(Json::object()));
  for (const std::string& term : split(selector, ',')) {
    const size_t equals = term.find('=');
    const auto found = labels.find(term.substr(0, equals));
    if (found == labels.end()) return false;
    if (equals != std::string::npos && *found != term.substr(equals + 1)) return false;
  }
  return true;
}

// Tokens are made by token_of(); another text is nobody's.
std::string review(const std::string& body) {
  const auto claims = split(Json::parse(body)["spec"]["token"], kSeparator);
  if (claims.size() != 4) return Json{{"status", {{"authenticated", false}}}}.dump();
  const Json extra = {{"authentication.kubernetes.io/pod-name", {claims[1]}},
                      {"authentication.kubernetes.io/pod-uid", {claims[2]}},
                      {"authentication.kubernetes.io/node-name", {claims[3]}}};
  const Json user = {{"username", "system:serviceaccount:" + claims[0] + ":default"},
                     {"extra", extra}};
  return Json{{"status", {{"authenticated", true}, {"audiences", {kAudience}}, {"user", user}}}}
      .dump();
}

constexpr std::chrono::seconds kWebhookTimeout{3};  // as config/install.yaml has it

http::Request review_of(const Json& pod) {
  const Json review = {{"apiVersion", "admission.k8s.io/v1"},
                       {"kind", "AdmissionReview"},
                       {"request",
                        {{"uid", "review"},
                         {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
                         {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
                         {"operation", "CREATE"},
                         {"namespace", pod["metadata"]["namespace"]},
                         {"object", pod}}}};
  return {.method = "POST",
          .path = "/mutate",
          .query = "timeout=3s",
          .headers = {{"Content-Type", "application/json"}},
          .body = review.dump()};
}

// The pod as the webhook's answer changes it.
Json patched(const Json& pod, const http::Response& response) {
  const Json answer = Json::parse(response.body, nullptr, false);
  if (response.status != 200 || answer.is_discarded()) return pod;
  const auto patch = base64_decode(answer["response"].value("patch", ""));
  return patch && !patch->empty() ? pod.patch(Json::parse(*patch)) : pod;
}

class OnePiece : public kube::BodyReader {
 public:
  explicit OnePiece(std::string text) : text_(std::move(text)) {}
  Result<std::string_view> next() override {
    if (std::exchange(read_, true)) return std::string_view();
    return std::string_view(text_);
  }

 private:
  const std::string text_;
  bool read_ = false;
};

}  // namespace

class ApiServer::Transport : public kube::HttpTransport {
 public:
  Transport(ApiServer& server, std::string client)
      : server_(server), client_(std::move(client)), chance_("API server for " + client_) {}

  Result<kube::HttpResponse> fetch(const kube::HttpRequest& request,
                                   const kube::BodyHandler& on_body,
                                   const kube::Cancellation& cancel) override {
    travel(4 * kMillisecond);
    if (cancel.cancelled()) return fail(ErrorCode::kCancelled, "cancelled");
    if (is_unreachable()) return fail(ErrorCode::kUnavailable, "no connection to the API server");
    const int64_t patience = std::chrono::nanoseconds(request.timeout).count();
    const int64_t wait = is_now(server_.faults.slow) ? some(ApiFaults::kSlowAnswer) : 0;
    sleep_for_ns(std::min(wait, patience));
    // A server that is slow goes on with what its client no longer waits for, or does not.
    if (wait >= patience && chance_.one_in(2)) return fail(ErrorCode::kTimeout, "no answer");
    kube::HttpResponse response = answer(as_fake(request));
    if (wait >= patience) return fail(ErrorCode::kTimeout, "no answer");
    if (happens(server_.faults.losing_answers)) {
      return fail(ErrorCode::kIo, "the connection broke before the answer");
    }
    travel(2 * kMillisecond);
    if (response.status / 100 != 2) return response;
    OnePiece body(std::exchange(response.body, {}));
    if (auto taken = on_body(body); !taken) return unexpected(taken.error());
    return response;
  }

  kube::StreamEnd stream(const kube::HttpRequest& request, const kube::LineHandler& on_line,
                         const kube::Cancellation& cancel) override {
    using Kind = kube::StreamEnd::Kind;
    travel(4 * kMillisecond);
    if (is_unreachable()) return {Kind::kRefused, {}, "no connection"};
    if (happens(server_.faults.throttled)) return {Kind::kStatus, throttled(), ""};
    const testing::FakeRequest asked = as_fake(request);
    const auto watch = server_.objects.watch(asked);
    const std::string seconds = asked.parameter("timeoutSeconds");
    const int64_t began = now_ns();
    const int64_t end = began + (seconds.empty() ? 300 : std::stoll(seconds)) * kSecond;
    while (!cancel.cancelled()) {
      if (is_unreachable()) return {Kind::kBroken, {}, "cut"};
      if (is_dead(began)) return be_silent(request, on_line, cancel);
      const int64_t left = end - now_ns();
      if (left <= 0) return {Kind::kClosed, {}, ""};
      // Looks now and then whether it is down or cancelled.
      const auto next =
          watch->next(milliseconds(std::min<int64_t>(left / kMillisecond + 1, 20'000)));
      if (is_dead(began)) continue;
      if (!next.line.empty()) {
        if (!deliver(asked, next.line, on_line)) return {Kind::kStopped, {}, ""};
      } else if (!next.ended && request.tick.count() > 0 && !on_line("")) {
        return {Kind::kStopped, {}, ""};
      }
      if (next.ended) return {next.cut ? Kind::kBroken : Kind::kClosed, {}, ""};
    }
    return {Kind::kCancelled, {}, ""};
  }

 private:
  static bool is_now(int64_t until) { return now_ns() < until; }
  bool happens(int64_t until) { return is_now(until) && chance_.one_in(ApiFaults::kSome); }
  [[nodiscard]] bool is_unreachable() const {
    const auto& cut = server_.faults.partitioned;
    const auto until = cut.find(client_);
    return is_now(server_.faults.down) || (until != cut.end() && is_now(until->second));
  }
  [[nodiscard]] bool is_dead(int64_t began) const {
    const auto dead = server_.faults.dead_watches.find(client_);
    return dead != server_.faults.dead_watches.end() && began < dead->second;
  }
  // Until the client takes the watch for dead.
  static kube::StreamEnd be_silent(const kube::HttpRequest& request,
                                   const kube::LineHandler& on_line,
                                   const kube::Cancellation& cancel) {
    using Kind = kube::StreamEnd::Kind;
    const int64_t end = now_ns() + std::chrono::nanoseconds(request.idle_timeout).count();
    while (now_ns() < end) {
      if (cancel.cancelled()) return {Kind::kCancelled, {}, ""};
      if (request.tick.count() > 0 && !on_line("")) return {Kind::kStopped, {}, ""};
      sleep_for_ns(std::min(end - now_ns(), 20 * kSecond));
    }
    return {Kind::kTimeout, {}, "silence"};
  }
  int64_t some(int64_t at_most) {
    return static_cast<int64_t>(chance_.below(static_cast<uint64_t>(at_most)));
  }
  void travel(int64_t at_most) { sleep_for_ns(1000 + some(at_most)); }

  bool deliver(const testing::FakeRequest& request, const std::string& line,
               const kube::LineHandler& on_line) {
    const Json event = Json::parse(line);
    const bool of_objects = event["type"] != "BOOKMARK" && event["type"] != "ERROR";
    if (of_objects && !is_selected(request, event["object"])) return true;
    travel(is_now(server_.faults.late_events) ? ApiFaults::kLateEvent : 3 * kMillisecond);
    return on_line(std::string_view(line).substr(0, line.size() - 1));
  }

  static kube::HttpResponse throttled() {
    kube::HttpResponse response;
    response.status = 429;
    response.headers["retry-after"] = "1";
    response.body = testing::fake_status(429, "TooManyRequests", "simulated");
    return response;
  }

  static kube::HttpResponse failed(int status) {
    kube::HttpResponse response;
    response.status = status;
    response.body = testing::fake_status(status, "InternalError", "etcdserver: request timed out");
    return response;
  }

  kube::HttpResponse answer(const testing::FakeRequest& request) {
    const Syscall call;
    ++server_.requests;
    if (happens(server_.faults.throttled)) return throttled();
    const bool fails = happens(server_.faults.failing);
    if (fails && chance_.one_in(2)) return failed(503);
    kube::HttpResponse response = done(request);
    return fails ? failed(500) : response;
  }

  kube::HttpResponse done(const testing::FakeRequest& request) {
    kube::HttpResponse response;
    if (request.path.ends_with("/tokenreviews")) {
      response.status = 201;
      response.body = review(request.body);
      return response;
    }
    if (request.method != "GET" && happens(server_.faults.busy)) touch_target(request.path);
    auto given = server_.objects.answer(request);
    response.status = given.status;
    response.body = std::move(given.body);
    if (request.is_list() && !request.parameter("labelSelector").empty()) select(request, response);
    if (request.method == "GET" || response.status >= 300) return response;
    ++server_.writes;
    if (server_.on_write) server_.on_write(request.method, request.path);
    return response;
  }

  // path: "/apis/GROUP/VERSION/namespaces/NS/COLLECTION/NAME[/status]". Nobody else writes Leases.
  void touch_target(const std::string& path) {
    const auto parts = split(path, '/');
    if (parts.size() < 8 || parts[4] != "namespaces" || parts[6] == "leases") return;
    server_.touch("/" + parts[1] + "/" + parts[2] + "/" + parts[3] + "/" + parts[6],
                  parts[5] + "/" + parts[7]);
  }

  static void select(const testing::FakeRequest& request, kube::HttpResponse& response) {
    Json list = Json::parse(response.body);
    Json kept = Json::array();
    for (Json& item : list["items"]) {
      if (is_selected(request, item)) kept.push_back(std::move(item));
    }
    list["items"] = std::move(kept);
    response.body = list.dump();
  }

  ApiServer& server_;
  const std::string client_;
  Chance chance_;
};

std::shared_ptr<kube::HttpTransport> ApiServer::transport(const std::string& client) {
  return std::make_shared<Transport>(*this, client);
}

void ApiServer::touch(const std::string& collection, const std::string& key) {
  const auto all = objects.all(collection);
  const auto found = all.find(key);
  if (found == all.end()) return;
  Json object = found->second;
  object["metadata"]["annotations"]["example.com/touched"] = std::to_string(now_ns());
  objects.put(collection, std::move(object));
}

void ApiServer::bookmark() {
  for (const char* collection : {kCaches, kArchives, kPods, kNodes, kJobs}) {
    objects.bookmark(collection);
  }
}

Json ApiServer::create_pod(Json pod) {
  const auto mailbox = std::make_shared<Mailbox>();
  if (webhook &&
      webhook(review_of(pod), http::make_responder(std::weak_ptr<http::AnswerSink>(mailbox), 1))) {
    if (const auto response = mailbox->wait_for(kWebhookTimeout, {})) {
      pod = patched(pod, *response);
    }
  }
  return objects.put(kPods, std::move(pod));
}

std::string ApiServer::token_of(const std::string& ns, const std::string& pod,
                                const std::string& uid, const std::string& node) {
  return ns + kSeparator + pod + kSeparator + uid + kSeparator + node;
}

std::pair<std::string, std::string> ApiServer::pod_of(std::string_view token) {
  const auto parts = split(std::string(token), kSeparator);
  if (parts.size() != 4) return {};
  return {parts[0], parts[1]};
}

void ApiServer::delete_dependents(const std::string& uid) {
  for (const char* collection : {kArchives, kJobs, kPods}) {
    for (const auto& [key, object] : objects.all(collection)) {
      const Json& metadata = object["metadata"];
      for (const Json& owner : metadata.value("ownerReferences", Json::array())) {
        if (owner.value("uid", "") != uid) continue;
        objects.erase(collection, metadata["namespace"], metadata["name"]);
        delete_dependents(metadata["uid"]);
      }
    }
  }
}

}  // namespace compilecache::simulation
