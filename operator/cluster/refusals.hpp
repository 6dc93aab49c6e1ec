#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kube/fields.hpp"

// Pods that were not admitted, as the controllers that tried to create them say in Events
// (FailedCreate). Such a pod never exists, so there is no other trace of it.
//
//   Refusal refusal = *parse_refusal(event);
//   if (refusal.places.name_ours || refusal.places.are_among(0)) ...
//
// Anyone may write Events, as many and as large as the API server accepts: of each, a kilobyte or
// two is kept.
//
// Pure; safe from any thread.

namespace compilecache::controller {

// What of the pod the message objects to.
struct RefusedPlaces {
  bool name_ours = false;            // it names one of our containers
  std::set<size_t> init_containers;  // the injected ones, if the pod has them

  [[nodiscard]] bool may_be_ours() const { return name_ours || !init_containers.empty(); }
  // Whether one of our containers is meant in an injected pod, where they begin at `first`.
  [[nodiscard]] bool are_among(size_t first) const {
    return init_containers.contains(first) || init_containers.contains(first + 1);
  }
};
RefusedPlaces places_in(std::string_view message);

struct Refusal {
  std::string ns, kind, name, uid;  // the owner of the pod
  std::string message;              // its beginning
  std::string event, version;       // the Event's name and resourceVersion
  RefusedPlaces places;             // that the whole message names
};
// Reads an Event; refusal_fields() names what it reads. Never fails.
Result<Refusal> parse_refusal(const nlohmann::json& event);
const kube::Fields& refusal_fields();

// The latest of an Event's times.
std::optional<WallTime> time_of_event(const nlohmann::json& event);

// Whether the message objects to the user that a container runs as.
bool is_about_a_user(std::string_view message);

}  // namespace compilecache::controller
