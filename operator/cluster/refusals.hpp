#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kube/fields.hpp"

// Pods that were not admitted, as the controllers that tried to create them say in Events
// (FailedCreate). Such a pod never exists, so there is no other trace of it.
//
//   Refusal refusal = *parse_refusal(event);
//   if (place_in(refusal.message) == RefusedPlace::kOurs) ...
//
// Pure; safe from any thread.

namespace compilecache::controller {

struct Refusal {
  std::string ns, kind, name, uid;  // the owner of the pod
  std::string message;
  std::string event, version;  // the Event's name and resourceVersion
};

// Reads an Event; refusal_fields() names what it reads. Never fails.
Result<Refusal> parse_refusal(const nlohmann::json& event);
const kube::Fields& refusal_fields();
// The latest of an Event's times.
std::optional<WallTime> time_of_event(const nlohmann::json& event);

// The part of the pod that the message objects to.
enum class RefusedPlace {
  kElsewhere,  // nothing of ours
  kMayBeOurs,  // one of the first two init containers: ours, if the pod was injected
  kOurs,       // it names one of our containers
};
RefusedPlace place_in(std::string_view message);

// Whether the message objects to the user that a container runs as.
bool is_about_a_user(std::string_view message);

}  // namespace compilecache::controller
