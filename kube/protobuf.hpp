#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "kube/fields.hpp"

// Reads Kubernetes' protobuf encoding. The API server writes built-in resources five times as fast
// in it as in JSON, and unwanted fields are skipped by their length. The result is the tree that
// the object's JSON would have made, so that no other code sees the difference; what JSON would
// show as empty text is left out.
//
//   Json event = protobuf::parse_event(frame, protobuf::kPod, fields);  // {"type", "object"}
//
// Custom resources have no such encoding. Source of the numbers: the generated.proto of k8s.io/api
// and k8s.io/apimachinery, where a number never changes its meaning.

namespace compilecache::kube::protobuf {

struct Message;

struct Field {
  enum class Kind { kText, kNumber, kFlag, kTime, kMessage, kTextMap };
  unsigned number;
  const char* name;  // in JSON
  Kind kind;
  const Message* message = nullptr;  // for kMessage
  bool repeated = false;             // for kMessage
};

// The fields that can be read; others are passed over.
struct Message {
  std::span<const Field> fields;
};

extern const Message kPod;

// One event of a watch (without the length before it), whose object is an `object` or, of errors, a
// Status. A discarded value when it is none.
nlohmann::json parse_event(std::string_view frame, const Message& object, const Fields& fields);

// An answer that is no success: the Status in it; a discarded value when it is none.
nlohmann::json parse_status(std::string_view body);

// Whether a body begins as Kubernetes' protobuf does.
bool is_protobuf(std::string_view body);

}  // namespace compilecache::kube::protobuf
