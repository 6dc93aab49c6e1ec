#include "kube/protobuf.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/time_format.hpp"
#include "kube/protobuf_messages.hpp"

namespace compilecache::kube::protobuf {
namespace {

using Json = nlohmann::json;
using Bytes = std::string_view;

constexpr Bytes kMagic{"k8s\0", 4};

// The fields of a message, one by one.
class Wire {
 public:
  explicit Wire(Bytes bytes) : rest_(bytes) {}

  // False at the end, and when what follows is no field.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    number_ = static_cast<unsigned>(tag >> 3);
    value_ = {};
    integer_ = 0;
    switch (tag & 7) {
      case 0:
        integer_ = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        value_ = take(varint());
        break;
      case 5:
        take(4);
        break;
      default:  // groups are not in use
        broken_ = true;
    }
    return !broken_;
  }

  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] unsigned number() const { return number_; }
  [[nodiscard]] Bytes bytes() const { return value_; }  // empty: a number
  [[nodiscard]] int64_t integer() const { return static_cast<int64_t>(integer_); }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    broken_ = true;
    return 0;
  }

  Bytes take(uint64_t count) {
    if (count > rest_.size()) {
      broken_ = true;
      return {};
    }
    const Bytes taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  Bytes rest_;
  unsigned number_ = 0;
  Bytes value_;
  uint64_t integer_ = 0;
  bool broken_ = false;
};

// The last field of that number that has bytes; empty when there is none.
Bytes bytes_of(Bytes message, unsigned number) {
  Bytes found;
  for (Wire wire(message); wire.next();) {
    if (wire.number() == number) found = wire.bytes();
  }
  return found;
}

Json time_of(Bytes message) {
  for (Wire wire(message); wire.next();) {
    if (wire.number() != kTimeSeconds) continue;
    // Years that RFC 3339 can write; a duration in nanoseconds ends before them.
    constexpr int64_t kMost = 9'000'000'000;
    if (wire.integer() < 0 || wire.integer() > kMost) return nullptr;
    return format_time(WallTime(std::chrono::seconds(wire.integer())));
  }
  return nullptr;
}

// False when the bytes are no such message.
bool read(Bytes bytes, const Message& message, const Fields::Part& wanted, Json& object);

bool read_field(const Wire& wire, const Field& field, const Fields::Part& wanted, Json& object) {
  switch (field.kind) {
    case Field::Kind::kText:
      if (!wire.bytes().empty()) object[field.name] = wire.bytes();
      return true;
    case Field::Kind::kNumber:
      object[field.name] = wire.integer();
      return true;
    case Field::Kind::kFlag:
      object[field.name] = wire.integer() != 0;
      return true;
    case Field::Kind::kTime:
      if (Json time = time_of(wire.bytes()); !time.is_null()) object[field.name] = std::move(time);
      return true;
    case Field::Kind::kTextMap: {
      const Bytes key = bytes_of(wire.bytes(), kEntryKey);
      if (wanted.member(key) == nullptr) return true;
      object[field.name][std::string(key)] = bytes_of(wire.bytes(), kEntryValue);
      return true;
    }
    case Field::Kind::kMessage:
      break;
  }
  Json inner = Json::object();
  if (!read(wire.bytes(), *field.message, wanted, inner)) return false;
  if (field.repeated) {
    object[field.name].push_back(std::move(inner));
  } else {
    object[field.name] = std::move(inner);
  }
  return true;
}

bool read(Bytes bytes, const Message& message, const Fields::Part& wanted, Json& object) {
  Wire wire(bytes);
  while (wire.next()) {
    const auto field = std::find_if(message.fields.begin(), message.fields.end(),
                                    [&](const Field& f) { return f.number == wire.number(); });
    if (field == message.fields.end()) continue;
    const Fields::Part* part = wanted.member(field->name);
    if (part != nullptr && !read_field(wire, *field, *part, object)) return false;
  }
  return !wire.broken();
}

// What stands behind the magic bytes: of which kind, and the object itself.
struct Typed {
  Bytes kind, object;
};
std::optional<Typed> unwrap(Bytes body) {
  if (!is_protobuf(body)) return std::nullopt;
  body.remove_prefix(kMagic.size());
  return Typed{bytes_of(bytes_of(body, kUnknownType), kTypeKind), bytes_of(body, kUnknownRaw)};
}

Json object_of(const Typed& typed, const Message& message, const Fields::Part& wanted) {
  Json object = Json::object();
  if (!read(typed.object, typed.kind == "Status" ? kStatus : message, wanted, object)) {
    return Json(Json::value_t::discarded);
  }
  object["kind"] = typed.kind;
  return object;
}

}  // namespace

bool is_protobuf(Bytes body) { return body.starts_with(kMagic); }

Json parse_event(Bytes frame, const Message& object, const Fields& fields) {
  const Bytes type = bytes_of(frame, kEventType);
  const auto typed = unwrap(bytes_of(bytes_of(frame, kEventObject), kExtensionRaw));
  const Fields::Part* wanted = fields.root().member("object");
  if (type.empty() || !typed || wanted == nullptr) return Json(Json::value_t::discarded);
  Json read = object_of(*typed, object, *wanted);
  if (read.is_discarded()) return read;
  return Json{{"type", type}, {"object", std::move(read)}};
}

Json parse_status(Bytes body) {
  const auto typed = unwrap(body);
  if (!typed || typed->kind != "Status") return Json(Json::value_t::discarded);
  const Fields all;
  return object_of(*typed, kStatus, all.root());
}

}  // namespace compilecache::kube::protobuf
