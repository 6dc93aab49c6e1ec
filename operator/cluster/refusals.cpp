#include "operator/cluster/refusals.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>

#include "api/injected_place.hpp"
#include "api/names.hpp"
#include "base/time_format.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {

using nlohmann::json;

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
    return kube::string_at(event, {"involvedObject", name});
  };
  return Refusal{about("namespace"),
                 about("kind"),
                 about("name"),
                 about("uid"),
                 kube::string_at(event, {"message"}),
                 kube::string_at(event, {"metadata", "name"}),
                 kube::string_at(event, {"metadata", "resourceVersion"})};
}

const kube::Fields& refusal_fields() {
  static const kube::Fields kFields{"/involvedObject", "/message"};
  return kFields;
}

RefusedPlaces places_in(std::string_view message) {
  const auto has = [&](std::string_view part) { return message.find(part) != message.npos; };
  return {has(api::kLoaderContainer) || has(api::kSaverContainer),
          api::init_containers_named_in(message)};
}

bool is_about_a_user(std::string_view message) {
  std::string lower;
  std::transform(message.begin(), message.end(), std::back_inserter(lower),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("user") != std::string::npos || lower.find("root") != std::string::npos;
}

}  // namespace compilecache::controller
