#include <nlohmann/json.hpp>

#include "kube/protobuf.hpp"
#include "targets.hpp"

// One event of a watch in Kubernetes' protobuf: an API server's own bytes, but with what strangers
// wrote into their pods.

namespace compilecache::fuzz {
namespace {

using nlohmann::json;

const kube::Fields& fields() {
  static const auto kFields = kube::Fields().within("object", {"/type"});
  return kFields;
}

void watch(Bytes input) {
  const std::string frame = text(input);
  const json event = kube::protobuf::parse_event(frame, kube::protobuf::kPod, fields());
  if (!event.is_discarded()) {
    require(event.at("type").is_string() && event.at("object").is_object(), "an event is whole");
    require(event == kube::protobuf::parse_event(frame, kube::protobuf::kPod, fields()),
            "the same bytes mean the same");
  }
  const json status = kube::protobuf::parse_status(frame);
  require(status.is_discarded() || status.is_object(), "a Status is an object");
}

const Registration kRegistration{{"watch", watch}};

}  // namespace
}  // namespace compilecache::fuzz
