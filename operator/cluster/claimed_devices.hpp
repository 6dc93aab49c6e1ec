#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/device_facts.hpp"
#include "base/error.hpp"

// Which devices a pod was given by dynamic resource allocation: its claims name them by driver,
// pool and name, and the ResourceSlices of that pool say what they are. Objects are read in the
// versions v1, v1beta2 and v1beta1 of resource.k8s.io.
//
//   ClaimedDevices devices{.wanted = basis.claims.value(), .drivers = settings.device_drivers};
//   for (const auto& [in_pod, name] : claims_of_pod(pod))
//     devices.claims[in_pod] = allocated_devices(claim_named(name));
//   for (const json& slice : slices) add_slice(slice, devices.published);
//   Result<api::DeviceFacts> facts = device_facts(devices);
//
// Anything uncertain is an error whose `reason` is a word of
// docs/troubleshoot/reasons.md:
//
// - claim_not_allocated, kUnavailable: a claim is not there or has no devices
// - device_not_published, kUnavailable: no slice of the pool's newest generation has the device
// - device_unknown, kInvalid: no device is of a driver of the settings, or one lacks an attribute
//
// Pure functions; safe from any thread. They never fail on fields that they do not know.

namespace compilecache::controller {

struct AllocatedDevice {
  std::string request;  // "REQUEST", or "REQUEST/ALTERNATIVE" of a list of alternatives
  std::string driver, pool, device;
  bool operator==(const AllocatedDevice&) const = default;
};

struct PublishedDevice {
  std::string driver, pool, device;
  int64_t generation = 0;                         // of the pool, which the newest stands for
  std::map<std::string, std::string> attributes;  // those that are texts or versions
};

struct ClaimedDevices {
  std::vector<std::string> wanted;  // KeyBasis::claims
  // By the claim's name in the pod; one that is not there is not allocated.
  std::map<std::string, std::vector<AllocatedDevice>> claims = {};
  std::vector<PublishedDevice> published = {};
  const std::map<std::string, api::DeviceDriver>& drivers;  // by the driver's name
};

// The names of the pod's ResourceClaims by their names in the pod. One that is made of a template
// has its name in the pod's status, once there is one.
std::map<std::string, std::string> claims_of_pod(const nlohmann::json& pod);
// Without those that are only watched over (adminAccess). Empty where the claim is not allocated.
std::vector<AllocatedDevice> allocated_devices(const nlohmann::json& claim);
// Adds the devices of a ResourceSlice.
void add_slice(const nlohmann::json& slice, std::vector<PublishedDevice>& devices);

Result<api::DeviceFacts> device_facts(const ClaimedDevices& devices);

// "gpu" of "gpu/request"
std::string_view claim_of(std::string_view wanted);

}  // namespace compilecache::controller
