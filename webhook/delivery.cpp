#include "webhook/delivery.hpp"

namespace compilecache::webhook {

namespace {

bool shares(const Json& pod, const char* field) {
  const Json& value = member(spec_of(pod), field);
  return value.IsBool() && value.GetBool();
}

}  // namespace

DeliveryChoice choose_delivery(api::Delivery wanted, const Json& pod,
                               const DirectoryPlan& directories) {
  if (wanted != api::Delivery::kSidecar) return {};
  std::string why;
  if (shares(pod, "shareProcessNamespace") || shares(pod, "hostPID")) {
    why = "its containers share their processes";
  } else if (directories.in_memory) {
    why = "its cache directory is in memory";
  } else {
    return {wanted, ""};
  }
  return {.warning = "compilecache.dev: delivery Sidecar is not for this pod, since " + why +
                     "; it is injected as InitAndSidecar"};
}

}  // namespace compilecache::webhook
