#include "api/archive_key.hpp"

#include <algorithm>

#include "base/sha256.hpp"

namespace compilecache::api {
namespace {

constexpr std::string_view kSharedSuffix = "-SHARED";
constexpr std::string_view kMigResource = "nvidia.com/mig-";

// Parts and values, each followed by a NUL, so that no two keys have the same text.
std::string canonical(const ArchiveKey& key) {
  std::string text;
  for (const auto& [part, value] : key) {
    text += part;
    text += '\0';
    text += value;
    text += '\0';
  }
  return text;
}

// The pod as if it had asked for these devices as an extended resource, on a node with the labels
// of its devices. So it shares archives with pods that do.
KeyBasis as_labelled(KeyBasis basis, const DeviceFacts& devices) {
  basis.claims.reset();
  basis.gpu_resource = kClaimedDevices;
  basis.gpu_count = devices.count;
  return basis;
}

NodeFacts as_labelled(NodeFacts node, const DeviceFacts& devices) {
  node.gpu_product = devices.product;
  if (!devices.driver_version.empty()) node.driver_version = devices.driver_version;
  return node;
}

}  // namespace

std::string normalized_gpu_product(std::string_view product, std::string_view gpu_resource) {
  if (product.ends_with(kSharedSuffix)) product.remove_suffix(kSharedSuffix.size());
  std::string name(product);
  if (gpu_resource.starts_with(kMigResource) && name.find("-MIG-") == std::string::npos) {
    std::string_view profile = gpu_resource.substr(kMigResource.size());
    if (profile.ends_with(".shared")) profile.remove_suffix(7);
    name += "-MIG-" + std::string(profile);
  }
  return name;
}

Result<ArchiveKey> make_key(const KeyBasis& basis, const NodeFacts& node,
                            const DeviceFacts* devices) {
  if (basis.claims) {
    if (devices == nullptr) {
      return fail(
          ErrorCode::kUnavailable,
          "naming the archive: the pod gets its devices by resourceClaims, and which it was "
          "given is not known");
    }
    const NodeFacts labelled = as_labelled(node, *devices);
    const auto& parts = basis.parts;
    if (labelled.driver_version.empty() &&
        std::find(parts.begin(), parts.end(), kDriverVersionPart) != parts.end()) {
      Error error{ErrorCode::kInvalid,
                  "naming the archive: the driver's version is part of the key, and neither the "
                  "devices that the pod was given nor the node's labels show it"};
      error.reason = kDeviceUnknown;
      return unexpected(std::move(error));
    }
    return make_key(as_labelled(basis, *devices), labelled);
  }
  const bool on_gpu = !basis.gpu_resource.empty();
  if (on_gpu && node.gpu_product.empty()) {
    return fail(
        ErrorCode::kUnavailable,
        "naming the archive: the node has no GPU product label (yet); check that its GPU feature "
        "discovery runs, or add the label's name to gpuProductLabels in the settings");
  }
  const std::map<std::string, std::string> values{
      {kGpuProductPart, on_gpu ? normalized_gpu_product(node.gpu_product, basis.gpu_resource)
                               : "cpu-" + node.architecture},
      {kGpuCountPart, std::to_string(basis.gpu_count)},
      {kArchitecturePart, node.architecture},
      {kImagePart, basis.image},
      {kWorkloadPart, basis.workload},
      {kDriverVersionPart, node.driver_version},
      {kCpuFeaturesPart, node.cpu_features},
  };
  ArchiveKey key;
  const auto add = [&](const std::string& part, const std::string& value) {
    if (!value.empty()) key[part] = value;
  };
  for (const std::string& part : basis.parts) {
    if (const auto found = values.find(part); found != values.end()) add(part, found->second);
  }
  if (!on_gpu) add(kCpuFeaturesPart, node.cpu_features);
  add(kVersionPart, basis.version);
  add(kDirectoriesPart, basis.directories);
  return key;
}

std::string archive_name(std::string_view cache, const ArchiveKey& key) {
  constexpr size_t kHashDigits = 10;
  return std::string(cache) + "-" + sha256_hex(canonical(key)).substr(0, kHashDigits);
}

bool is_same_but_cpu(const ArchiveKey& archive, const ArchiveKey& pod) {
  return with_cpu(archive, "") == with_cpu(pod, "");
}

bool is_compatible(const ArchiveKey& archive, const ArchiveKey& pod) {
  ArchiveKey a = archive;
  ArchiveKey b = pod;
  a.erase(kImagePart);
  b.erase(kImagePart);
  return is_same_but_cpu(a, b);
}

std::string cpu_of(const ArchiveKey& key) {
  const auto found = key.find(kCpuPart);
  return found == key.end() ? "" : found->second;
}

ArchiveKey with_cpu(ArchiveKey key, const std::string& cpu) {
  key.erase(kCpuPart);
  if (!cpu.empty()) key[kCpuPart] = cpu;
  return key;
}

bool is_cpu_name(std::string_view text) {
  constexpr size_t kLongest = 63;
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-";
  return text.size() <= kLongest && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

CpuFit cpu_fit(const ArchiveKey& archive, const std::string& host) {
  const std::string theirs = cpu_of(archive);
  if (theirs == kAnyCpu) return CpuFit::kAny;
  if (theirs.empty()) return host.empty() ? CpuFit::kOwn : CpuFit::kUnproven;
  return theirs == host && host != kUnknownCpu ? CpuFit::kOwn : CpuFit::kOther;
}

}  // namespace compilecache::api
