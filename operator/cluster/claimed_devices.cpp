#include "operator/cluster/claimed_devices.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/strings.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

const json& below(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

tl::unexpected<Error> cannot_tell(ErrorCode code, const char* reason, std::string message) {
  Error error{code, std::move(message)};
  error.reason = reason;
  return unexpected(std::move(error));
}

// Attributes of the driver's own may be written with or without its domain.
std::string attribute(const PublishedDevice& device, const std::string& name) {
  if (name.empty()) return "";
  for (const std::string& spelled : {name, device.driver + "/" + name}) {
    const auto found = device.attributes.find(spelled);
    if (found != device.attributes.end()) return found->second;
  }
  return "";
}

// As the labels of nodes are made of products: nothing but what a label's value can have, and
// `blank` in place of the blanks between words.
std::string as_label(std::string_view product, const std::string& blank) {
  std::string label;
  bool between = false;
  for (const char c : product) {
    const bool kept =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    if (kept && between && !label.empty()) label += blank;
    if (kept) label += c;
    if (kept || c == ' ') between = c == ' ';
  }
  return label;
}

// "gpu" wants all devices of the claim, "gpu/big" those of its request "big", whichever
// alternative.
bool is_wanted(const AllocatedDevice& device, std::string_view wanted) {
  const size_t slash = wanted.find('/');
  if (slash == std::string_view::npos) return true;
  const std::string_view request = wanted.substr(slash + 1);
  const std::string_view got = device.request;
  return got == request ||
         (got.starts_with(request) && got.substr(request.size()).starts_with('/'));
}

using DeviceName = std::tuple<std::string, std::string, std::string>;  // driver, pool, device

std::string to_text(const DeviceName& name) {
  const auto& [driver, pool, device] = name;
  return driver + "/" + pool + "/" + device;
}

// Each once, though several containers may use it.
Result<std::set<DeviceName>> wanted_devices(const ClaimedDevices& input) {
  std::set<DeviceName> devices;
  for (const std::string& wanted : input.wanted) {
    const std::string claim(claim_of(wanted));
    const auto found = input.claims.find(claim);
    if (found == input.claims.end() || found->second.empty()) {
      return cannot_tell(ErrorCode::kUnavailable, api::kClaimNotAllocated,
                         "finding the pod's devices: its claim \"" + claim +
                             "\" has no ResourceClaim with devices (yet)");
    }
    for (const AllocatedDevice& device : found->second) {
      if (is_wanted(device, wanted)) devices.insert({device.driver, device.pool, device.device});
    }
  }
  return devices;
}

// Of the pool's newest generation: an older one may describe another device by that name.
const PublishedDevice* find(const std::vector<PublishedDevice>& published, const DeviceName& name) {
  const auto& [driver, pool, device] = name;
  std::optional<int64_t> newest;
  for (const PublishedDevice& one : published) {
    if (one.driver != driver || one.pool != pool) continue;
    newest = std::max(newest.value_or(one.generation), one.generation);
  }
  for (const PublishedDevice& one : published) {
    if (one.driver == driver && one.pool == pool && one.device == device &&
        one.generation == newest) {
      return &one;
    }
  }
  return nullptr;
}

// "" where it is unknown.
std::string product_of(const PublishedDevice& device, const api::DeviceDriver& driver) {
  const std::string product = as_label(attribute(device, driver.product), driver.blank);
  const auto& whole = driver.whole_types;
  const bool is_whole = whole.empty() || std::find(whole.begin(), whole.end(),
                                                   attribute(device, "type")) != whole.end();
  if (is_whole || product.empty()) return product;
  const std::string profile = as_label(attribute(device, driver.profile), driver.blank);
  return profile.empty() ? "" : product + driver.profile_prefix + profile;
}

// One product, or how many there are of each: "1xA+2xB".
std::string named(const std::map<std::string, int>& products) {
  if (products.size() == 1) return products.begin()->first;
  std::vector<std::string> each;
  each.reserve(products.size());
  for (const auto& [product, count] : products) {
    each.push_back(std::to_string(count) + "x" + product);
  }
  return join(each, "+");
}

}  // namespace

std::string_view claim_of(std::string_view wanted) { return wanted.substr(0, wanted.find('/')); }

std::map<std::string, std::string> claims_of_pod(const json& pod) {
  std::map<std::string, std::string> claims;
  for (const json& list : {below(below(pod, "spec"), "resourceClaims"),
                           below(below(pod, "status"), "resourceClaimStatuses")}) {
    if (!list.is_array()) continue;
    for (const json& claim : list) {
      const std::string name = kube::string_at(claim, {"resourceClaimName"});
      if (!name.empty()) claims.emplace(kube::string_at(claim, {"name"}), name);
    }
  }
  return claims;
}

std::vector<AllocatedDevice> allocated_devices(const json& claim) {
  std::vector<AllocatedDevice> devices;
  const json& results =
      below(below(below(below(claim, "status"), "allocation"), "devices"), "results");
  if (!results.is_array()) return devices;
  for (const json& result : results) {
    if (below(result, "adminAccess") == true) continue;
    devices.push_back({kube::string_at(result, {"request"}), kube::string_at(result, {"driver"}),
                       kube::string_at(result, {"pool"}), kube::string_at(result, {"device"})});
  }
  return devices;
}

void add_slice(const json& slice, std::vector<PublishedDevice>& devices) {
  const json& spec = below(slice, "spec");
  const json& pool = below(spec, "pool");
  const json& listed = below(spec, "devices");
  if (!listed.is_array()) return;
  for (const json& device : listed) {
    PublishedDevice& added = devices.emplace_back();
    added.driver = kube::string_at(spec, {"driver"});
    added.pool = kube::string_at(pool, {"name"});
    const json& generation = below(pool, "generation");
    if (generation.is_number_integer()) added.generation = generation.get<int64_t>();
    added.device = kube::string_at(device, {"name"});
    // v1beta1 has them one level below.
    const json& basic = below(device, "basic");
    const json& attributes = below(basic.is_object() ? basic : device, "attributes");
    if (!attributes.is_object()) continue;
    for (const auto& [name, value] : attributes.items()) {
      for (const char* kind : {"string", "version"}) {
        if (std::string said = kube::string_at(value, {kind}); !said.empty()) {
          added.attributes[name] = std::move(said);
        }
      }
    }
  }
}

Result<api::DeviceFacts> device_facts(const ClaimedDevices& input) {
  const auto wanted = wanted_devices(input);
  if (!wanted) return unexpected(wanted.error());
  std::map<std::string, int> products;
  std::set<std::string> versions;
  api::DeviceFacts facts;
  for (const DeviceName& name : *wanted) {
    const auto driver = input.drivers.find(std::get<0>(name));
    // As beside a GPU that a label tells, other devices do not matter.
    if (driver == input.drivers.end()) continue;
    const PublishedDevice* device = find(input.published, name);
    if (device == nullptr) {
      return cannot_tell(ErrorCode::kUnavailable, api::kDeviceNotPublished,
                         "finding out about device " + to_text(name) +
                             ": no ResourceSlice has it (now); see that its driver runs there");
    }
    const std::string product = product_of(*device, driver->second);
    if (product.empty()) {
      return cannot_tell(ErrorCode::kInvalid, api::kDeviceUnknown,
                         "finding out about device " + to_text(name) +
                             ": its ResourceSlice does not say which product it is, by the "
                             "attributes that deviceDrivers of the settings names");
    }
    ++products[product];
    ++facts.count;
    const std::string version = attribute(*device, driver->second.driver_version);
    if (!version.empty()) versions.insert(version);
  }
  if (products.empty()) {
    return cannot_tell(ErrorCode::kInvalid, api::kDeviceUnknown,
                       "finding the pod's devices: none that its claims were given is of a driver "
                       "in deviceDrivers of the settings; add it there if it is a GPU's");
  }
  facts.product = named(products);
  facts.driver_version = join({versions.begin(), versions.end()}, "+");
  return facts;
}

}  // namespace compilecache::controller
