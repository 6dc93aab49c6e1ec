#include "webhook/pod_resources.hpp"

#include <algorithm>
#include <cstdint>

#include "base/quantity.hpp"

namespace compilecache::webhook {

namespace {

Amounts read_amounts(const Json& list) {
  Amounts amounts;
  for (const auto& [resource, quantity] : members(list)) {
    const auto amount = parse_quantity_milli(quantity_text(quantity));
    if (amount) amounts[std::string(text_of(resource))] = *amount;
  }
  return amounts;
}

// Amounts are never negative; what is beyond all numbers stays the largest.
int64_t sum_of(int64_t one, int64_t other) {
  return one > INT64_MAX - other ? INT64_MAX : one + other;
}

void add(Amounts& sum, const Amounts& more) {
  for (const auto& [resource, amount] : more) {
    int64_t& total = sum[resource];
    total = sum_of(total, amount);
  }
}

void raise_to(Amounts& top, const Amounts& other) {
  for (const auto& [resource, amount] : other) {
    top[resource] = std::max(top[resource], amount);
  }
}

// The formula of KEP-753 for requests or for limits. Resources that an init container does not
// request itself have their peak later, when all sidecars run: so the sidecars before it are looked
// up, not copied.
Amounts summed(const std::vector<InitContainer>& init, const std::vector<ContainerAmounts>& apps,
               Amounts ContainerAmounts::*list) {
  Amounts sidecars;
  Amounts init_peak;
  for (const InitContainer& container : init) {
    for (const auto& [resource, amount] : container.amounts.*list) {
      const auto before = sidecars.find(resource);
      const int64_t running = sum_of(before == sidecars.end() ? 0 : before->second, amount);
      init_peak[resource] = std::max(init_peak[resource], running);
    }
    if (container.is_sidecar) add(sidecars, container.amounts.*list);
  }
  Amounts running = sidecars;
  for (const ContainerAmounts& app : apps) add(running, app.*list);
  raise_to(running, init_peak);
  return running;
}

std::vector<const Json*> all_containers(const Json& pod) {
  std::vector<const Json*> all;
  for (const Json& container : init_containers_of(pod)) all.push_back(&container);
  for (const Json& container : containers_of(pod)) all.push_back(&container);
  return all;
}

int64_t amount(const Amounts& amounts, const char* resource) {
  const auto found = amounts.find(resource);
  return found == amounts.end() ? 0 : found->second;
}

}  // namespace

ContainerAmounts with_defaults(ContainerAmounts amounts) {
  for (const auto& [resource, limit] : amounts.limits) amounts.requests.emplace(resource, limit);
  return amounts;
}

ContainerAmounts amounts_of(const Json& container) {
  const Json& resources = member(container, "resources");
  return with_defaults(
      {read_amounts(member(resources, "requests")), read_amounts(member(resources, "limits"))});
}

// As Kubernetes' IsPodLevelResourcesSet (component-helpers/resource/helpers.go): an empty object,
// or one that names other resources only, is none.
bool has_pod_level_resources(const Json& pod) {
  const auto counts = [](const Json& list) {
    const auto all = members(list);
    return std::any_of(all.begin(), all.end(), [](const auto& amount) {
      const std::string_view resource = text_of(amount.name);
      return resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-");
    });
  };
  const Json& resources = object_member(spec_of(pod), "resources");
  return counts(member(resources, "requests")) || counts(member(resources, "limits"));
}

Qos qos_of(const Json& pod) {
  bool any = false;
  bool guaranteed = true;
  // The pod's spec has them under the same name as a container.
  const auto counted =
      has_pod_level_resources(pod) ? std::vector<const Json*>{&spec_of(pod)} : all_containers(pod);
  for (const Json* container : counted) {
    const ContainerAmounts amounts = amounts_of(*container);
    for (const char* resource : {"cpu", "memory"}) {
      const int64_t request = amount(amounts.requests, resource);
      const int64_t limit = amount(amounts.limits, resource);
      any = any || request > 0 || limit > 0;
      guaranteed = guaranteed && limit > 0 && request == limit;
    }
  }
  if (!any) return Qos::kBestEffort;
  return guaranteed ? Qos::kGuaranteed : Qos::kBurstable;
}

ContainerAmounts summed_amounts(const Json& pod, const std::vector<InitContainer>& more) {
  std::vector<InitContainer> init = more;
  for (const Json& container : init_containers_of(pod)) {
    init.push_back({amounts_of(container), is_native_sidecar(container)});
  }
  std::vector<ContainerAmounts> apps;
  for (const Json& container : containers_of(pod)) apps.push_back(amounts_of(container));
  return {summed(init, apps, &ContainerAmounts::requests),
          summed(init, apps, &ContainerAmounts::limits)};
}

ContainerAmounts effective_amounts(const Json& pod, const std::vector<InitContainer>& more) {
  ContainerAmounts amounts = summed_amounts(pod, more);
  if (has_pod_level_resources(pod)) {
    const ContainerAmounts own = amounts_of(spec_of(pod));
    for (const auto& [resource, amount] : own.requests) amounts.requests[resource] = amount;
    for (const auto& [resource, amount] : own.limits) amounts.limits[resource] = amount;
  }
  const Amounts overhead = read_amounts(member(spec_of(pod), "overhead"));
  add(amounts.requests, overhead);
  add(amounts.limits, overhead);
  return amounts;
}

}  // namespace compilecache::webhook
