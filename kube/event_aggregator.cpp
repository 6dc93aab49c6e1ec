#include "kube/event_aggregator.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/sha256.hpp"

namespace compilecache::kube {
namespace {

constexpr size_t kMessageLimit = 1024;  // the API server's
constexpr size_t kNameLimit = 200;      // leaves room for the suffix within 253
// The API server forgets Events after an hour; later ones are new.
constexpr Duration kEventLife = std::chrono::hours(1);

std::string kind_key(const EventRecord& record) {
  return std::to_string(int(record.type)) + '\n' + record.reason;
}

std::string object_id(const ObjectReference& object) {
  return object.api_version + '\n' + object.kind + '\n' + object.ns + '\n' + object.name + '\n' +
         object.uid;
}

std::string cut(std::string message) {
  if (message.size() <= kMessageLimit) return message;
  size_t end = kMessageLimit - 3;
  // The cut must not lie in the middle of a UTF-8 sequence.
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  message.resize(end);
  return message + "...";
}

}  // namespace

struct EventAggregator::Impl {
  struct Written {
    std::string name;
    int count = 0;
    WallTime first{};
    Monotonic last{};
  };
  struct Similar {
    std::set<std::string> messages;
    Monotonic last{};
  };
  struct Object {
    std::string id;
    double tokens = 0;
    Monotonic tokens_at{};
    std::map<std::string, Similar> similar;  // by type and reason
    std::map<std::string, Written> written;  // by type, reason and message
  };

  AggregatorOptions options;
  std::list<Object> recent;  // most recently used first
  std::unordered_map<std::string, std::list<Object>::iterator> by_id;

  Object& object(const std::string& id, Monotonic now) {
    auto found = by_id.find(id);
    if (found != by_id.end()) {
      recent.splice(recent.begin(), recent, found->second);
      return recent.front();
    }
    recent.push_front({.id = id, .tokens = double(options.burst), .tokens_at = now});
    by_id[id] = recent.begin();
    if (recent.size() > options.objects) {
      by_id.erase(recent.back().id);
      recent.pop_back();
    }
    return recent.front();
  }

  bool take_token(Object& object, Monotonic now) const {
    const double refilled = std::chrono::duration<double>(now - object.tokens_at) /
                            std::chrono::duration<double>(options.refill);
    object.tokens = std::min(double(options.burst), object.tokens + refilled);
    object.tokens_at = now;
    if (object.tokens < 1) return false;
    object.tokens -= 1;
    return true;
  }

  // The message under which the record is written: its own, or one for all that are like it.
  std::string group(Object& object, const EventRecord& record, Monotonic now) const {
    Similar& similar = object.similar[kind_key(record)];
    if (now - similar.last > options.similar_window) similar.messages.clear();
    similar.last = now;
    if (similar.messages.size() < size_t(options.similar_limit)) {
      similar.messages.insert(record.message);
    }
    const bool few = similar.messages.contains(record.message);
    return few ? record.message : std::string();
  }

  static void drop_old(Object& object, Monotonic now) {
    std::erase_if(object.written, [&](const auto& e) { return now - e.second.last > kEventLife; });
    std::erase_if(object.similar, [&](const auto& e) { return now - e.second.last > kEventLife; });
  }
};

EventAggregator::EventAggregator(AggregatorOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
}
EventAggregator::~EventAggregator() = default;

std::optional<EventAggregator::Write> EventAggregator::add(const EventRecord& record, Monotonic now,
                                                           WallTime wall) {
  const std::string id = object_id(record.object);
  Impl::Object& object = impl_->object(id, now);
  Impl::drop_old(object, now);
  if (!impl_->take_token(object, now)) return std::nullopt;

  const std::string group = impl_->group(object, record, now);
  Write write;
  write.record = record;
  if (group.empty()) write.record.message = "(combined from similar events): " + record.message;
  write.record.message = cut(std::move(write.record.message));

  Impl::Written& written = object.written[kind_key(record) + '\n' + group];
  write.create = written.count == 0;
  if (write.create) {
    const std::string unique =
        id + kind_key(record) + group + std::to_string(wall.time_since_epoch().count());
    written.name =
        record.object.name.substr(0, kNameLimit) + "." + sha256_hex(unique).substr(0, 16);
    written.first = wall;
  }
  written.last = now;
  ++written.count;
  write.name = written.name;
  write.count = written.count;
  write.first = written.first;
  write.last = wall;
  return write;
}

void EventAggregator::forget(const EventRecord& record) {
  auto found = impl_->by_id.find(object_id(record.object));
  if (found == impl_->by_id.end()) return;
  auto& written = found->second->written;
  const std::string kind = kind_key(record) + '\n';
  written.erase(kind + record.message);
  written.erase(kind);
}

}  // namespace compilecache::kube
