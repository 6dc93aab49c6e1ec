#include "api/agent_resources.hpp"

namespace compilecache::api {
namespace {

struct Range {
  Quantity least_limit, most;
};

Range range_of(std::string_view resource, Quantity least_cpu_limit) {
  if (resource == "cpu") return {least_cpu_limit, kMostCpu};
  if (resource == "memory") return {kLeastMemoryLimit, kMostMemory};
  return {kLeastStorageLimit, kMostStorage};
}

std::string trouble_of(const ContainerWish& wish, const std::string& container,
                       Quantity least_cpu_limit) {
  for (const auto& [resource, member] : kResourceNames) {
    const auto& request = wish.requests.*member;
    const auto& limit = wish.limits.*member;
    const Range range = range_of(resource, least_cpu_limit);
    const std::string of_request = container + ".requests." + resource;
    const std::string of_limit = container + ".limits." + resource;
    if (request && *request > range.most)
      return of_request + " is more than " + format_quantity(range.most) + ", the most";
    if (limit && *limit > range.most)
      return of_limit + " is more than " + format_quantity(range.most) + ", the most";
    if (limit && *limit < range.least_limit)
      return of_limit + " is less than " + format_quantity(range.least_limit) + ", the least";
    if (request && limit && *limit < *request) return of_limit + " is less than " + of_request;
  }
  return "";
}

void put_over(ResourceAmounts& base, const ResourceAmounts& over) {
  for (const auto& [resource, member] : kResourceNames) {
    if (over.*member) base.*member = over.*member;
  }
}

}  // namespace

std::optional<Quantity> amount_of(const ResourceAmounts& amounts, std::string_view resource) {
  for (const auto& [name, member] : kResourceNames) {
    if (resource == name) return amounts.*member;
  }
  return std::nullopt;
}

std::string trouble_of(const AgentResources& resources) {
  const std::string of_loader = trouble_of(resources.load, "load", kLeastLoadCpuLimit);
  return of_loader.empty() ? trouble_of(resources.save, "save", kLeastSaveCpuLimit) : of_loader;
}

AgentResources merged(const AgentResources& base, const AgentResources& over) {
  AgentResources all = base;
  put_over(all.load.requests, over.load.requests);
  put_over(all.load.limits, over.load.limits);
  put_over(all.save.requests, over.save.requests);
  put_over(all.save.limits, over.save.limits);
  return all;
}

}  // namespace compilecache::api
