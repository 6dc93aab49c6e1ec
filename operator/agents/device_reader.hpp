#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/device_facts.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "kube/client.hpp"
#include "operator/cluster/cluster_view.hpp"

// Reads which devices a pod was given by its resourceClaims (operator/cluster/claimed_devices.hpp),
// when one of its agents calls. Most clusters have no such pods, so nothing is watched. An
// allocation does not change while its pod runs, so it is read once and remembered until then, also
// where it is none of a known driver.
//
//   DeviceReader reader(resource_api(client), settings.device_drivers);
//   auto facts = reader.read(*pod, node);   // blocks on the API server the first time
//   reader.gone(pod->uid);
//
// Thread-safe. Beside the errors of device_facts() there is `devices_unreadable`: the API server
// did not answer, or not so.

namespace compilecache::controller {

struct ResourceApi {
  using Json = nlohmann::json;
  std::function<Result<Json>(const std::string&ns, const std::string&name)> pod, claim;
  // The items of all ResourceSlices that the field selector chooses.
  std::function<Result<Json>(const std::string& field_selector)> slices;
};

// Of this API server; which version of resource.k8s.io it has is asked when that is needed.
ResourceApi resource_api(const kube::Client& client);

class DeviceReader {
 public:
  DeviceReader(ResourceApi api, const std::map<std::string, api::DeviceDriver>& drivers);

  // `node`: where the pod runs.
  Result<api::DeviceFacts> read(const PodView& pod, const std::string& node);
  void gone(const std::string& uid);

 private:
  [[nodiscard]] Result<api::DeviceFacts> ask(const PodView& pod, const std::string& node) const;
  void settle(const PodView& pod, const Result<api::DeviceFacts>& facts);
  void tell(const PodView& pod, const Error& error);

  const ResourceApi api_;
  const std::map<std::string, api::DeviceDriver>& drivers_;
  Mutex mutex_;
  // By the pod's uid: what is settled, and what was said last of the rest.
  std::map<std::string, Result<api::DeviceFacts>> known_ GUARDED_BY(mutex_);
  std::map<std::string, std::string> told_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
