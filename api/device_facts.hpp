#pragma once

#include <string>
#include <vector>

// What dynamic resource allocation (DRA) contributes to a pod's key: the devices that its
// ResourceClaims were given, in place of the node's labels.

namespace compilecache::api {

// In KeyBasis::gpu_resource of a pod whose GPUs come by its claims.
inline constexpr char kClaimedDevices[] = "resourceClaims";

// Why a pod's devices are unknown, in a word of docs/troubleshoot/reasons.md.
inline constexpr char kClaimNotAllocated[] = "claim_not_allocated";
inline constexpr char kDeviceNotPublished[] = "device_not_published";
inline constexpr char kDeviceUnknown[] = "device_unknown";
inline constexpr char kDevicesUnreadable[] = "devices_unreadable";

struct DeviceFacts {
  std::string product;  // as the node's label would say: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
  int count = 0;
  std::string driver_version;  // empty: not known
  bool operator==(const DeviceFacts&) const = default;
};

// How the devices of one DRA driver are described: names of their attributes in ResourceSlices.
struct DeviceDriver {
  std::string product;
  std::string driver_version;  // empty: it tells none
  std::string profile;         // of a part of a device; empty: there are none
  // Between the product and the profile.
  std::string profile_prefix = "-";
  // Values of the attribute `type` that stand for a whole device. Any other needs a profile. Empty:
  // all are whole.
  std::vector<std::string> whole_types;
  // In place of blanks in a product, as the node's labels have it.
  std::string blank = "-";
  bool operator==(const DeviceDriver&) const = default;
};

}  // namespace compilecache::api
