#include "kube/protobuf.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/time_format.hpp"
#include "kube/protobuf_messages.hpp"

namespace compilecache::kube::protobuf {
namespace {

using Json = nlohmann::json;
using Bytes = std::string_view;
using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr Bytes kMagic{"k8s\0", 4};

pbf_reader reader_of(Bytes message) { return {message.data(), message.size()}; }

// The bytes of the field that the reader is at; empty for a number.
Bytes bytes_in(pbf_reader& field) {
  if (field.wire_type() != pbf_wire_type::length_delimited) {
    field.skip();
    return {};
  }
  const auto view = field.get_view();
  return {view.data(), view.size()};
}

// The same; 0 for what is no number.
int64_t number_in(pbf_reader& field) {
  if (field.wire_type() != pbf_wire_type::varint) {
    field.skip();
    return 0;
  }
  return field.get_int64();
}

// The last field of that number that has bytes; empty when there is none.
Bytes bytes_of(Bytes message, unsigned number) {
  Bytes found;
  for (pbf_reader field = reader_of(message); field.next(number);) found = bytes_in(field);
  return found;
}

Json time_of(Bytes message) {
  pbf_reader field = reader_of(message);
  if (!field.next(kTimeSeconds)) return nullptr;
  const int64_t seconds = number_in(field);
  // Years that RFC 3339 can write; a duration in nanoseconds ends before them.
  constexpr int64_t kMost = 9'000'000'000;
  if (seconds < 0 || seconds > kMost) return nullptr;
  return format_time(WallTime(std::chrono::seconds(seconds)));
}

// The wanted parts of a message, and how many elements of each list in it.
struct Wanted {
  const Fields::Part& part;
  size_t most;
};

void read(Bytes bytes, const Message& message, const Wanted& wanted, Json& object);

void read_text_map(Bytes entry, const Field& field, const Wanted& wanted, Json& object) {
  const Bytes key = bytes_of(entry, kEntryKey);
  if (wanted.part.member(key) == nullptr) return;
  object[field.name][std::string(key)] = bytes_of(entry, kEntryValue);
}

void read_message(Bytes bytes, const Field& field, const Wanted& wanted, Json& object) {
  if (field.repeated) {
    const auto list = object.find(field.name);
    if (list != object.end() && list->size() >= wanted.most) return;
  }
  Json inner = Json::object();
  read(bytes, *field.message, wanted, inner);
  if (field.repeated) {
    object[field.name].push_back(std::move(inner));
  } else {
    object[field.name] = std::move(inner);
  }
}

void read_field(pbf_reader& from, const Field& field, const Wanted& wanted, Json& object) {
  switch (field.kind) {
    case Field::Kind::kText:
      if (const Bytes text = bytes_in(from); !text.empty()) object[field.name] = text;
      return;
    case Field::Kind::kNumber:
      object[field.name] = number_in(from);
      return;
    case Field::Kind::kFlag:
      object[field.name] = number_in(from) != 0;
      return;
    case Field::Kind::kTime:
      if (Json time = time_of(bytes_in(from)); !time.is_null())
        object[field.name] = std::move(time);
      return;
    case Field::Kind::kTextMap:
      return read_text_map(bytes_in(from), field, wanted, object);
    case Field::Kind::kMessage:
      return read_message(bytes_in(from), field, wanted, object);
  }
}

void read(Bytes bytes, const Message& message, const Wanted& wanted, Json& object) {
  for (pbf_reader from = reader_of(bytes); from.next();) {
    const auto field = std::find_if(message.fields.begin(), message.fields.end(),
                                    [&](const Field& f) { return f.number == from.tag(); });
    const Fields::Part* part =
        field == message.fields.end() ? nullptr : wanted.part.member(field->name);
    if (part == nullptr) {
      from.skip();
    } else {
      read_field(from, *field, {*part, wanted.most}, object);
    }
  }
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

Json object_of(const Typed& typed, const Message& message, const Wanted& wanted) {
  Json object = Json::object();
  read(typed.object, typed.kind == "Status" ? kStatus : message, wanted, object);
  object["kind"] = typed.kind;
  return object;
}

Json event_of(Bytes frame, const Message& object, const Fields& fields) {
  const Bytes type = bytes_of(frame, kEventType);
  const auto typed = unwrap(bytes_of(bytes_of(frame, kEventObject), kExtensionRaw));
  const Fields::Part* wanted = fields.root().member("object");
  if (type.empty() || !typed || wanted == nullptr) return Json(Json::value_t::discarded);
  return {{"type", type}, {"object", object_of(*typed, object, {*wanted, fields.most_elements()})}};
}

Json status_of(Bytes body) {
  const auto typed = unwrap(body);
  if (!typed || typed->kind != "Status") return Json(Json::value_t::discarded);
  const Fields all;
  return object_of(*typed, kStatus, {all.root(), all.most_elements()});
}

}  // namespace

bool is_protobuf(Bytes body) { return body.starts_with(kMagic); }

Json parse_event(Bytes frame, const Message& object, const Fields& fields) {
  try {
    return event_of(frame, object, fields);
  } catch (const protozero::exception&) {
    return Json(Json::value_t::discarded);
  }
}

Json parse_status(Bytes body) {
  try {
    return status_of(body);
  } catch (const protozero::exception&) {
    return Json(Json::value_t::discarded);
  }
}

}  // namespace compilecache::kube::protobuf
