#include "webhook/resource_wishes.hpp"

#include <tl/expected.hpp>

#include "api/names.hpp"
#include "base/strings.hpp"

namespace compilecache::webhook {

namespace {

// All that can be written, and as much again for spaces.
constexpr size_t kLongest = 1024;
// An API server passes on 256 bytes of a warning.
constexpr size_t kLongestShown = 64;

using Trouble = tl::unexpected<std::string>;

// The amount that "save.limits.memory" names; nullptr where nothing has that name.
std::optional<Quantity>* find(api::AgentResources& resources, std::string_view path) {
  const std::vector<std::string> parts = split(path, '.');
  if (parts.size() != 3) return nullptr;
  if (parts[0] != "load" && parts[0] != "save") return nullptr;
  api::ContainerWish& container = parts[0] == "load" ? resources.load : resources.save;
  if (parts[1] != "requests" && parts[1] != "limits") return nullptr;
  api::ResourceAmounts& amounts = parts[1] == "requests" ? container.requests : container.limits;
  for (const auto& [name, member] : api::kResourceNames) {
    if (parts[2] == name) return &(amounts.*member);
  }
  return nullptr;
}

tl::expected<api::AgentResources, std::string> read(std::string_view text) {
  if (text.size() > kLongest) {
    return Trouble("it has more than " + std::to_string(kLongest) + " characters");
  }
  api::AgentResources resources;
  for (const std::string& part : split(text, ',')) {
    const std::string_view item = trim(part);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) return Trouble("write it like save.limits.memory=1Gi");
    const std::string_view path = trim(item.substr(0, equals));
    const std::string shown(first_bytes(path, kLongestShown));
    std::optional<Quantity>* amount = find(resources, path);
    if (amount == nullptr) {
      return Trouble("\"" + shown +
                     "\" is none of {load,save}.{requests,limits}.{cpu,memory,ephemeral-storage}");
    }
    if (*amount) return Trouble(shown + " is there twice");
    const std::string_view value = trim(item.substr(equals + 1));
    const auto quantity = parse_quantity(value);
    if (!quantity) {
      return Trouble(shown + ": \"" + std::string(first_bytes(value, kLongestShown)) +
                     "\" is no quantity like 500m or 1Gi");
    }
    *amount = *quantity;
  }
  return resources;
}

}  // namespace

ResourceWishes resource_wishes(const Json& pod, const api::AgentResources& of_cache) {
  const auto text = annotation(pod, api::kResourcesAnnotation);
  if (!text) return {of_cache, ""};
  const auto of_pod = read(*text);
  std::string why;
  if (of_pod) {
    api::AgentResources both = api::merged(of_cache, *of_pod);
    why = api::trouble_of(both);
    if (why.empty()) return {both, ""};
  } else {
    why = of_pod.error();
  }
  return {of_cache,
          "compilecache.dev: " + std::string(api::kResourcesAnnotation) + " has no effect: " + why};
}

}  // namespace compilecache::webhook
