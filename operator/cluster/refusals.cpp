#include "operator/cluster/refusals.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>

#include "api/injected_place.hpp"
#include "api/names.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {

using nlohmann::json;

namespace {

// Kubernetes' longest name. Kinds and uids are shorter.
constexpr size_t kLongestNameInEvent = 253;
// The searched part of a message, and the kept one; controllers write a few hundred bytes.
constexpr size_t kLongestSearched = 64U << 10, kLongestKept = 600;
// A policy names the few containers that it objects to.
constexpr size_t kMostPlaces = 64;

std::string beginning(const std::string& text, size_t most) {
  return std::string(first_bytes(text, most));
}

}  // namespace

std::optional<WallTime> time_of_event(const json& event) {
  std::optional<WallTime> latest;
  for (const auto& path : {"/lastTimestamp", "/eventTime", "/series/lastObservedTime"}) {
    const json::json_pointer pointer(path);
    if (!event.contains(pointer) || !event.at(pointer).is_string()) continue;
    const auto time = parse_time(event.at(pointer).get<std::string>());
    if (time && (!latest || *time > *latest)) latest = *time;
  }
  return latest;
}

Result<Refusal> parse_refusal(const json& event) {
  const auto about = [&](const char* name) {
    return beginning(kube::string_at(event, {"involvedObject", name}), kLongestNameInEvent);
  };
  const auto metadata = [&](const char* name) {
    return beginning(kube::string_at(event, {"metadata", name}), kLongestNameInEvent);
  };
  const std::string message = kube::string_at(event, {"message"});
  return Refusal{about("namespace"),
                 about("kind"),
                 about("name"),
                 about("uid"),
                 beginning(message, kLongestKept),
                 metadata("name"),
                 metadata("resourceVersion"),
                 places_in(first_bytes(message, kLongestSearched))};
}

const kube::Fields& refusal_fields() {
  static const kube::Fields kFields{"/involvedObject/namespace", "/involvedObject/kind",
                                    "/involvedObject/name", "/involvedObject/uid", "/message"};
  return kFields;
}

RefusedPlaces places_in(std::string_view message) {
  const auto has = [&](std::string_view part) { return message.find(part) != message.npos; };
  RefusedPlaces places{has(api::kLoaderContainer) || has(api::kSaverContainer),
                       api::init_containers_named_in(message)};
  auto& named = places.init_containers;
  while (named.size() > kMostPlaces) named.erase(std::prev(named.end()));
  return places;
}

bool is_about_a_user(std::string_view message) {
  std::string lower;
  std::transform(message.begin(), message.end(), std::back_inserter(lower),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("user") != std::string::npos || lower.find("root") != std::string::npos;
}

}  // namespace compilecache::controller
