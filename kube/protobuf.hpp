#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "kube/fields.hpp"

// Kubernetes' other encoding. The API server writes built-in resources in it five times as fast as
// in JSON, and what is not wanted is passed over by its length. Read into the tree that the JSON of
// the object would have made, so that nobody else knows the difference; what JSON would show as
// empty text is left out.
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
  const Message* message = nullptr;  // of kMessage
  bool repeated = false;             // of kMessage
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
