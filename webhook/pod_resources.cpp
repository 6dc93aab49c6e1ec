#include "webhook/pod_resources.hpp"

#include <algorithm>
#include <vector>

#include "base/quantity.hpp"
#include "webhook/pod_json.hpp"

namespace compilecache::webhook {

namespace {

Amounts read_amounts(const json& list) {
  Amounts amounts;
  for (const auto& [resource, quantity] : list.items()) {
    const auto amount =
        parse_quantity_milli(quantity.is_string() ? quantity.get<std::string>() : quantity.dump());
    if (amount) amounts[resource] = *amount;
  }
  return amounts;
}

void add(Amounts& sum, const Amounts& more) {
  for (const auto& [resource, amount] : more) sum[resource] += amount;
}

void raise_to(Amounts& top, const Amounts& other) {
  for (const auto& [resource, amount] : other) {
    top[resource] = std::max(top[resource], amount);
  }
}

// The formula of KEP-753 for requests or for limits.
Amounts summed(const json& pod, Amounts ContainerAmounts::*list) {
  Amounts sidecars;
  Amounts init_peak;
  for (const json& container : init_containers_of(pod)) {
    const Amounts own = amounts_of(container).*list;
    if (is_native_sidecar(container)) {
      add(sidecars, own);
      raise_to(init_peak, sidecars);
    } else {
      Amounts with_sidecars = sidecars;
      add(with_sidecars, own);
      raise_to(init_peak, with_sidecars);
    }
  }
  Amounts running = sidecars;
  for (const json& container : containers_of(pod)) add(running, amounts_of(container).*list);
  raise_to(running, init_peak);
  return running;
}

std::vector<const json*> all_containers(const json& pod) {
  std::vector<const json*> all;
  for (const json& container : init_containers_of(pod)) all.push_back(&container);
  for (const json& container : containers_of(pod)) all.push_back(&container);
  return all;
}

int64_t amount(const Amounts& amounts, const char* resource) {
  const auto found = amounts.find(resource);
  return found == amounts.end() ? 0 : found->second;
}

}  // namespace

ContainerAmounts amounts_of(const json& container) {
  const json& resources = object_member(container, "resources");
  ContainerAmounts amounts{read_amounts(object_member(resources, "requests")),
                           read_amounts(object_member(resources, "limits"))};
  for (const auto& [resource, limit] : amounts.limits) amounts.requests.emplace(resource, limit);
  return amounts;
}

bool has_pod_level_resources(const json& pod) {
  return member(spec_of(pod), "resources").is_object();
}

Qos qos_of(const json& pod) {
  bool any = false;
  bool guaranteed = true;
  // The pod's spec has them under the same name as a container.
  const auto counted =
      has_pod_level_resources(pod) ? std::vector<const json*>{&spec_of(pod)} : all_containers(pod);
  for (const json* container : counted) {
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

ContainerAmounts summed_amounts(const json& pod) {
  return {summed(pod, &ContainerAmounts::requests), summed(pod, &ContainerAmounts::limits)};
}

ContainerAmounts effective_amounts(const json& pod) {
  ContainerAmounts amounts = summed_amounts(pod);
  if (has_pod_level_resources(pod)) {
    const ContainerAmounts own = amounts_of(spec_of(pod));
    for (const auto& [resource, amount] : own.requests) amounts.requests[resource] = amount;
    for (const auto& [resource, amount] : own.limits) amounts.limits[resource] = amount;
  }
  const Amounts overhead = read_amounts(object_member(spec_of(pod), "overhead"));
  add(amounts.requests, overhead);
  add(amounts.limits, overhead);
  return amounts;
}

std::string format_amount(int64_t milli) {
  constexpr int64_t kMebibyte = int64_t{1024} * 1024 * 1000;
  if (milli > 0 && milli % kMebibyte == 0) return std::to_string(milli / kMebibyte) + "Mi";
  if (milli % 1000 == 0) return std::to_string(milli / 1000);
  return std::to_string(milli) + "m";
}

}  // namespace compilecache::webhook
