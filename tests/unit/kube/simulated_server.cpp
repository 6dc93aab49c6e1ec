#include "tests/unit/kube/simulated_server.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/support/fake_apiserver.hpp"

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;
using compilecache::testing::fake_status;

constexpr int kPage = 3;

std::string parameter(const HttpRequest& request, const std::string& name) {
  const size_t at = request.target.find(name + "=");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 1;
  return request.target.substr(begin, request.target.find('&', begin) - begin);
}

Json object(const std::string& key, int version, int written) {
  return {{"metadata",
           {{"namespace", "ml"},
            {"name", key.substr(3)},
            {"resourceVersion", std::to_string(version)},
            {"managedFields", {{{"f:spec", {{"not", "wanted"}}}}}}}},
          {"spec", {{"value", written}, {"other", {"]", "}", "\""}}}}};
}

std::string line(const std::string& type, const Json& what) {
  return Json{{"type", type}, {"object", what}}.dump();
}

HttpResponse status(int code, const std::string& message = "for the test") {
  return {code, {}, fake_status(code, "", message)};
}

HttpResponse too_large() { return status(504, "Too large resource version: 9, current: 8"); }

// A text in random pieces, which may break off.
class RandomPieces : public BodyReader {
 public:
  RandomPieces(std::string text, const Random& random, std::optional<size_t> cut_at)
      : text_(std::move(text)), random_(random), cut_at_(cut_at) {}
  Result<std::string_view> next() override {
    if (cut_at_ && at_ >= *cut_at_) return fail(ErrorCode::kIo, "cut");
    const size_t size = std::min<size_t>(1 + random_() % 60, text_.size() - at_);
    at_ += size;
    return std::string_view(text_).substr(at_ - size, size);
  }

 private:
  const std::string text_;
  const Random& random_;
  const std::optional<size_t> cut_at_;
  size_t at_ = 0;
};

}  // namespace

SimulatedServer::SimulatedServer(uint64_t seed, FakeClock& clock)
    : random_(seeded_random(seed)),
      clock_(clock),
      watch_lists_(one_in(2)),
      changes_left_(int(20 + below(80))) {
  for (uint64_t i = below(12); i > 0; --i) change();
}

void SimulatedServer::change() {
  const std::string key = "ml/p" + std::to_string(below(8));
  ++version_;
  if (now_.contains(key) && one_in(3)) {
    now_.erase(key);
    history_.push_back({version_, "DELETED", key});
  } else {
    history_.push_back({version_, now_.contains(key) ? "MODIFIED" : "ADDED", key});
    now_[key] = version_;
  }
  --changes_left_;
}

void SimulatedServer::happen() {
  clock_.advance(std::chrono::milliseconds(below(3000)));
  if (one_in(20)) clock_.advance(std::chrono::minutes(3));
  if (honest()) return;
  for (uint64_t i = below(3); i > 0 && !honest(); --i) change();
  if (one_in(8)) compacted_ = std::max(compacted_, version_ - int(below(4)));
  --changes_left_;
}

void SimulatedServer::wait(Duration time) {
  clock_.advance(time);
  happen();
}

bool SimulatedServer::wait_until_told() {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return told_; });
}

std::map<std::string, int> SimulatedServer::state_at(int version) const {
  std::map<std::string, int> state;
  for (const Event& event : history_) {
    if (event.version > version) break;
    if (std::string(event.type) == "DELETED") {
      state.erase(event.key);
    } else {
      state[event.key] = event.version;
    }
  }
  return state;
}

int SimulatedServer::replica() { return honest() ? version_ : version_ - int(below(4)); }

Result<HttpResponse> SimulatedServer::fetch(const HttpRequest& request, const BodyHandler& on_body,
                                            const Cancellation& cancel) {
  if (cancel.cancelled()) return fail(ErrorCode::kCancelled, "cancelled");
  happen();
  if (!honest() && one_in(4)) {
    switch (below(8)) {
      case 0:
        return fail(ErrorCode::kIo, "cut");
      case 1:
        return fail(ErrorCode::kTimeout, "no answer");
      case 2:
        return fail(ErrorCode::kUnavailable, "no connection");
      case 3: {
        HttpResponse busy = status(429);
        busy.headers["retry-after"] = "1";
        return busy;
      }
      case 4:
        return status(500);
      case 5:
        return status(410);
      case 6:
        return too_large();
      default: {
        RandomPieces body("<html>a proxy's page", random_, std::nullopt);
        if (auto read = on_body(body); !read) return unexpected(read.error());
        return HttpResponse{200, {}, ""};
      }
    }
  }
  return list(request, on_body);
}

Result<HttpResponse> SimulatedServer::list(const HttpRequest& request, const BodyHandler& on_body) {
  const std::string wanted = parameter(request, "resourceVersion");
  const std::string token = parameter(request, "continue");
  int at = version_;
  int first = 0;
  if (!token.empty()) {
    at = std::stoi(token);
    first = std::stoi(token.substr(token.find('.') + 1));
    if (at < compacted_) return status(410);
  } else if (!wanted.empty()) {
    at = replica();
    if (std::stoi(wanted) > at) return too_large();
  }
  const auto objects = state_at(at);
  const bool paged = !parameter(request, "limit").empty();
  Json items = Json::array();
  std::string more;
  int index = 0;
  for (const auto& [key, written] : objects) {
    if (index++ < first) continue;
    if (paged && items.size() == kPage) {
      more = std::to_string(at) + "." + std::to_string(index - 1);
      break;
    }
    items.push_back(object(key, written, written));
  }
  const Json metadata = {{"resourceVersion", std::to_string(at)}, {"continue", more}};
  const std::string text =
      one_in(2) ? "{\"items\":" + items.dump() + ",\"metadata\":" + metadata.dump() + "}"
                : "{\"metadata\":" + metadata.dump() + ", \"items\":" + items.dump(1) + "}\n";
  std::optional<size_t> cut_at;
  if (!honest() && one_in(6)) cut_at = below(text.size());
  RandomPieces body(text, random_, cut_at);
  if (auto read = on_body(body); !read) return unexpected(read.error());
  return HttpResponse{200, {}, ""};
}

StreamEnd SimulatedServer::stream(const HttpRequest& request, const LineHandler& on_line,
                                  const Cancellation& cancel) {
  using Kind = StreamEnd::Kind;
  happen();
  if (!honest() && one_in(4)) return ended_somehow();
  const std::string wanted = parameter(request, "resourceVersion");
  const bool all_first = !parameter(request, "sendInitialEvents").empty();
  if (all_first && !watch_lists_) return {Kind::kStatus, status(422), ""};
  if (all_first || wanted.empty() || wanted == "0") {
    const int at = wanted.empty() ? version_ : replica();
    if (!wanted.empty() && std::stoi(wanted) > at) return {Kind::kStatus, too_large(), ""};
    if (!start(state_at(at), at, all_first, on_line)) return ended_somehow();
    return follow(at, on_line, cancel);
  }
  const int at = std::stoi(wanted);
  if (at >= compacted_) return follow(at, on_line, cancel);
  if (one_in(2)) return {Kind::kStatus, status(410), ""};
  const bool more = on_line(line("ERROR", Json::parse(status(410).body)));
  return {more ? Kind::kClosed : Kind::kStopped, {}, ""};
}

// False when it broke off.
bool SimulatedServer::start(const std::map<std::string, int>& objects, int at, bool bookmark,
                            const LineHandler& on_line) {
  for (const auto& [key, written] : objects) {
    if (!honest() && one_in(20)) return false;
    on_line(line("ADDED", object(key, written, written)));
  }
  if (!honest() && one_in(10)) return false;
  if (!bookmark) return true;
  const Json metadata = {{"resourceVersion", std::to_string(at)},
                         {"annotations", {{"k8s.io/initial-events-end", "true"}}}};
  on_line(line("BOOKMARK", {{"metadata", metadata}}));
  return true;
}

StreamEnd SimulatedServer::follow(int at, const LineHandler& on_line, const Cancellation& cancel) {
  using Kind = StreamEnd::Kind;
  while (!cancel.cancelled()) {
    happen();
    if (!honest() && one_in(10)) return ended_somehow();
    if (!honest() && one_in(10) && !say_nonsense(on_line)) return {Kind::kStopped, {}, ""};
    const auto next = std::find_if(history_.begin(), history_.end(),
                                   [&](const Event& event) { return event.version > at; });
    if (next != history_.end()) {
      at = next->version;
      const auto before = state_at(at - 1);
      const bool deleted = std::string(next->type) == "DELETED";
      const int written = deleted ? before.at(next->key) : at;
      if (!on_line(line(next->type, object(next->key, at, written)))) {
        return {Kind::kStopped, {}, ""};
      }
    } else if (honest()) {
      std::lock_guard<std::mutex> lock(mutex_);
      told_ = true;
      changed_.notify_all();
      break;
    } else {
      const Json metadata = {{"resourceVersion", std::to_string(at)}};
      on_line(one_in(2) ? std::string() : line("BOOKMARK", {{"metadata", metadata}}));
    }
  }
  while (!cancel.wait_for(std::chrono::seconds(1))) {
  }
  return {Kind::kCancelled, {}, ""};
}

StreamEnd SimulatedServer::ended_somehow() {
  using Kind = StreamEnd::Kind;
  static const std::vector<StreamEnd> kEnds{
      {Kind::kClosed, {}, ""},          {Kind::kRefused, {}, "no connection"},
      {Kind::kTimeout, {}, "silent"},   {Kind::kBroken, {}, "cut"},
      {Kind::kStatus, status(429), ""}, {Kind::kStatus, status(401), ""},
      {Kind::kStatus, status(410), ""}, {Kind::kStatus, status(500), ""},
      {Kind::kStatus, too_large(), ""}};
  return kEnds[below(kEnds.size())];
}

bool SimulatedServer::say_nonsense(const LineHandler& on_line) {
  static const std::vector<std::string> kLines{
      "",
      "not json",
      "{}",
      R"({"type":"NEW","object":{"metadata":{"name":"ghost","resourceVersion":"1"}}})",
      R"({"type":"ADDED","object":{}})",
      R"({"type":"ADDED","object":{"kind":"Node","metadata":{"name":"ghost"}}})",
      line("ERROR", Json::parse(status(410).body)),
      line("ERROR", Json::parse(status(429).body)),
      line("ERROR", Json::parse(status(500).body))};
  return on_line(kLines[below(kLines.size())]);
}

}  // namespace compilecache::kube
