#include "tests/support/fake_objects.hpp"

#include <algorithm>
#include <deque>
#include <sstream>
#include <utility>

namespace compilecache::testing {
namespace {

using Json = nlohmann::json;

std::string text_at(const Json& object, const std::string& pointer) {
  return object.value(Json::json_pointer(pointer), std::string());
}

std::string key_of(const Json& object) {
  const std::string ns = text_at(object, "/metadata/namespace");
  return (ns.empty() ? "" : ns + "/") + text_at(object, "/metadata/name");
}

std::string join_key(const std::string& ns, const std::string& name) {
  return (ns.empty() ? "" : ns + "/") + name;
}

FakeAnswer refuse(int code, const std::string& reason, const std::string& message) {
  return {code, fake_status(code, reason, message)};
}

std::string event_line(const std::string& type, const Json& object) {
  return Json{{"type", type}, {"object", object}}.dump() + "\n";
}

}  // namespace

std::string fake_status(int code, const std::string& reason, const std::string& message) {
  return Json{{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Failure"},
              {"code", code},     {"reason", reason},   {"message", message}}
      .dump();
}

// A watch from some version on. With sendInitialEvents, and at "0" and "", the present objects come
// first; the former are ended by a bookmark.
class FakeObjects::HistoryWatch : public FakeObjects::Watch {
 public:
  HistoryWatch(FakeObjects& objects, Place place, const std::string& version, bool all_first)
      : objects_(objects), place_(std::move(place)), ends_(objects.ends_) {
    if (!all_first && !version.empty() && version != "0") {
      at_ = std::stoll(version);
      return;
    }
    at_ = objects_.version_;
    for (const auto& [key, object] : objects_.objects_[place_.collection]) {
      initial_.push_back(event_line("ADDED", object));
    }
    if (!all_first) return;
    const Json end = {{"resourceVersion", std::to_string(at_)},
                      {"annotations", {{"k8s.io/initial-events-end", "true"}}}};
    initial_.push_back(event_line("BOOKMARK", {{"metadata", end}}));
  }

  Next next(std::chrono::milliseconds time) override {
    std::unique_lock<std::mutex> lock(objects_.mutex_);
    if (!initial_.empty()) {
      std::string line = std::move(initial_.front());
      initial_.pop_front();
      return {std::move(line)};
    }
    History& history = objects_.history_[place_.collection];
    const Event* found = nullptr;
    const auto news = [&] {
      found = find(history);
      return found != nullptr || objects_.ends_ != ends_ || at_ < objects_.compacted_;
    };
    if (!history.changed.wait_for(lock, time, news)) return {};
    if (objects_.ends_ != ends_) return end();
    if (at_ < objects_.compacted_) return gone();
    at_ = found->version;
    return {event_line(found->type, found->object)};
  }

 private:
  // The first event after `at_` that is for this watch.
  [[nodiscard]] const Event* find(const History& history) const {
    auto event =
        std::upper_bound(history.events.begin(), history.events.end(), at_,
                         [](int64_t version, const Event& each) { return version < each.version; });
    for (; event != history.events.end(); ++event) {
      if (place_.ns.empty() || event->type == "BOOKMARK" ||
          text_at(event->object, "/metadata/namespace") == place_.ns) {
        return &*event;
      }
    }
    return nullptr;
  }
  static Next gone() {
    const std::string status = fake_status(410, "Expired", "too old resource version");
    return {event_line("ERROR", Json::parse(status)), true};
  }
  [[nodiscard]] Next end() const {
    if (objects_.how_ == FakeApiServer::End::kGone) return gone();
    return {"", true, objects_.how_ == FakeApiServer::End::kCut};
  }

  FakeObjects& objects_;
  const Place place_;
  int64_t at_ = 0;
  const int64_t ends_;
  std::deque<std::string> initial_;
};

std::unique_ptr<FakeObjects::Watch> FakeObjects::watch(const FakeRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::make_unique<HistoryWatch>(*this, place_of(request.path),
                                        request.parameter("resourceVersion"),
                                        request.parameter("sendInitialEvents") == "true");
}

FakeObjects::Place FakeObjects::place_of(const std::string& path) {
  std::vector<std::string> parts;
  std::stringstream stream(path.substr(1));
  for (std::string part; std::getline(stream, part, '/');) parts.push_back(part);
  Place place;
  size_t at = parts.front() == "api" ? 2 : 3;
  for (size_t i = 0; i < at && i < parts.size(); ++i) place.collection += "/" + parts[i];
  const auto next = [&] { return at < parts.size() ? parts[at++] : std::string(); };
  if (at + 2 < parts.size() && parts[at] == "namespaces") {
    ++at;
    place.ns = next();
  }
  place.collection += "/" + next();
  place.name = next();
  place.subresource = next();
  return place;
}

bool FakeObjects::is_collection(const std::string& path) { return place_of(path).name.empty(); }

Json FakeObjects::put(const std::string& collection, Json object) {
  std::lock_guard<std::mutex> lock(mutex_);
  return put_locked(collection, std::move(object));
}

Json FakeObjects::put_locked(const std::string& collection, Json object) {
  auto& objects = objects_[collection];
  const std::string key = key_of(object);
  auto before = objects.find(key);
  const bool fresh = before == objects.end();
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  object["metadata"]["uid"] =
      fresh ? "uid-" + std::to_string(++uids_) : text_at(before->second, "/metadata/uid");
  objects[key] = object;
  add_event(collection, fresh ? "ADDED" : "MODIFIED", object);
  return object;
}

void FakeObjects::add_event(const std::string& collection, std::string type, Json object) {
  History& history = history_[collection];
  history.events.push_back({version_, std::move(type), std::move(object)});
  history.changed.notify_all();
}

void FakeObjects::wake_all_watches() {
  for (auto& [collection, history] : history_) history.changed.notify_all();
}

void FakeObjects::erase(const std::string& collection, const std::string& ns,
                        const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  erase_locked(collection, join_key(ns, name));
}

void FakeObjects::erase_locked(const std::string& collection, const std::string& key) {
  auto& objects = objects_[collection];
  auto found = objects.find(key);
  if (found == objects.end()) return;
  Json object = std::move(found->second);
  objects.erase(found);
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  add_event(collection, "DELETED", std::move(object));
}

void FakeObjects::bookmark(const std::string& collection) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++version_;
  const Json object = {{"metadata", {{"resourceVersion", std::to_string(version_)}}}};
  add_event(collection, "BOOKMARK", object);
}

std::map<std::string, Json> FakeObjects::all(const std::string& collection) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = objects_.find(collection);
  return found == objects_.end() ? std::map<std::string, Json>() : found->second;
}

int64_t FakeObjects::version() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return version_;
}

void FakeObjects::compact() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [collection, history] : history_) history.events.clear();
  compacted_ = ++version_;
  wake_all_watches();
}

void FakeObjects::end_watches(FakeApiServer::End how) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++ends_;
  how_ = how;
  wake_all_watches();
}

FakeAnswer FakeObjects::answer(const FakeRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Place place = place_of(request.path);
  if (request.method == "GET" && place.name.empty()) return list_locked(request, place);
  if (request.method == "GET") return get_locked(place);
  if (request.method == "POST") return create_locked(request, place);
  if (request.method == "PUT") return update_locked(Json::parse(request.body), place);
  if (request.method == "PATCH") return patch_locked(request, place);
  if (request.method == "DELETE") return delete_locked(request, place);
  return refuse(405, "MethodNotAllowed", "no such method");
}

// The continue token is "version/key": at which state the list is, and the last key given.
FakeAnswer FakeObjects::list_locked(const FakeRequest& request, const Place& place) {
  std::string token = request.parameter("continue");
  int64_t at = version_;
  std::string after;
  if (!token.empty()) {
    at = std::stoll(token);
    after = token.substr(token.find('/') + 1);
    if (at < compacted_) return refuse(410, "Expired", "the continue token is too old");
  }
  const std::string limit_text = request.parameter("limit");
  const size_t limit = limit_text.empty() ? SIZE_MAX : std::stoull(limit_text);
  Json items = Json::array();
  std::string last;
  std::string more;
  for (const auto& [key, object] : objects_[place.collection]) {
    if (!after.empty() && key <= after) continue;
    if (!place.ns.empty() && text_at(object, "/metadata/namespace") != place.ns) continue;
    if (items.size() == limit) {
      more = std::to_string(at) + "/" + last;
      break;
    }
    items.push_back(object);
    last = key;
  }
  Json metadata = {{"resourceVersion", std::to_string(at)}};
  if (!more.empty()) metadata["continue"] = more;
  return {200, Json{{"kind", "List"}, {"metadata", metadata}, {"items", items}}.dump()};
}

FakeAnswer FakeObjects::get_locked(const Place& place) {
  const auto& objects = objects_[place.collection];
  auto found = objects.find(join_key(place.ns, place.name));
  if (found == objects.end()) return refuse(404, "NotFound", "\"" + place.name + "\" not found");
  return {200, found->second.dump()};
}

FakeAnswer FakeObjects::create_locked(const FakeRequest& request, const Place& place) {
  Json object = Json::parse(request.body);
  if (!place.ns.empty()) object["metadata"]["namespace"] = place.ns;
  if (objects_[place.collection].contains(key_of(object))) {
    return refuse(409, "AlreadyExists", "\"" + key_of(object) + "\" already exists");
  }
  return {201, put_locked(place.collection, std::move(object)).dump()};
}

FakeAnswer FakeObjects::update_locked(const Json& wanted, const Place& place) {
  auto& objects = objects_[place.collection];
  auto found = objects.find(join_key(place.ns, place.name));
  if (found == objects.end()) return refuse(404, "NotFound", "\"" + place.name + "\" not found");
  const std::string version = text_at(wanted, "/metadata/resourceVersion");
  if (!version.empty() && version != text_at(found->second, "/metadata/resourceVersion")) {
    return refuse(409, "Conflict", "the object has been modified");
  }
  Json object = wanted;
  if (place.subresource == "status") {
    object = found->second;
    object["status"] = wanted.value("status", Json::object());
  }
  return {200, put_locked(place.collection, std::move(object)).dump()};
}

FakeAnswer FakeObjects::patch_locked(const FakeRequest& request, const Place& place) {
  auto& objects = objects_[place.collection];
  auto found = objects.find(join_key(place.ns, place.name));
  if (found == objects.end()) return refuse(404, "NotFound", "\"" + place.name + "\" not found");
  const Json change = Json::parse(request.body);
  const std::string version = change.is_array() ? "" : text_at(change, "/metadata/resourceVersion");
  if (!version.empty() && version != text_at(found->second, "/metadata/resourceVersion")) {
    return refuse(409, "Conflict", "the object has been modified");
  }
  Json object = found->second;
  if (change.is_array()) {
    object = object.patch(change);
  } else {
    object.merge_patch(change);
  }
  return {200, put_locked(place.collection, std::move(object)).dump()};
}

FakeAnswer FakeObjects::delete_locked(const FakeRequest& request, const Place& place) {
  auto& objects = objects_[place.collection];
  const std::string key = join_key(place.ns, place.name);
  auto found = objects.find(key);
  if (found == objects.end()) return refuse(404, "NotFound", "\"" + place.name + "\" not found");
  const Json options = request.body.empty() ? Json::object() : Json::parse(request.body);
  const std::string uid = text_at(options, "/preconditions/uid");
  if (!uid.empty() && uid != text_at(found->second, "/metadata/uid")) {
    return refuse(409, "Conflict", "the UID in the precondition does not match");
  }
  const std::string version = text_at(options, "/preconditions/resourceVersion");
  if (!version.empty() && version != text_at(found->second, "/metadata/resourceVersion")) {
    return refuse(409, "Conflict", "the ResourceVersion in the precondition does not match");
  }
  erase_locked(place.collection, key);
  return {200, fake_status(200, "", "deleted")};
}

}  // namespace compilecache::testing
