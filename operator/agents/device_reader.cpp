#include "operator/agents/device_reader.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "operator/cluster/claimed_devices.hpp"
#include "operator/cluster/resource_api.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

// A loader waits for the answer, and goes on without one after three seconds.
constexpr std::chrono::seconds kPatience{2};
// Kept for pods whose end was not noticed; they are read again.
constexpr size_t kRemembered = 50'000;

Error unreadable(const Error& error, const std::string& doing) {
  Error said = error.with(doing);
  said.reason = api::kDevicesUnreadable;
  return said;
}

// The version that the API server has, asked once; and again after it was not known there any more.
class ServedVersion {
 public:
  explicit ServedVersion(kube::Client client) : client_(std::move(client)) {}

  Result<std::string> get() EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (known_) return *known_;
    }
    auto served = served_resource_api(client_);
    if (!served) return unexpected(served.error());
    if (!*served) {
      return fail(ErrorCode::kUnavailable,
                  "the API server has no version of resource.k8s.io that is known here");
    }
    const MutexLock lock(mutex_);
    known_ = **served;
    return *known_;
  }
  void forget() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    known_.reset();
  }

 private:
  const kube::Client client_;
  Mutex mutex_;
  std::optional<std::string> known_ GUARDED_BY(mutex_);
};

}  // namespace

ResourceApi resource_api(const kube::Client& any) {
  const kube::Client client = any.with_timeout(kPatience, 1);
  auto version = std::make_shared<ServedVersion>(client);
  ResourceApi api;
  api.pod = [client](const std::string& ns, const std::string& name) {
    return client.get(kube::resources::kPods, ns, name);
  };
  api.claim = [client, version](const std::string& ns, const std::string& name) -> Result<json> {
    const auto served = version->get();
    if (!served) return unexpected(served.error());
    return client.get({"resource.k8s.io", *served, "resourceclaims", true}, ns, name);
  };
  api.slices = [client, version](const std::string& field_selector) -> Result<json> {
    const auto served = version->get();
    if (!served) return unexpected(served.error());
    auto list = client.list_all({"resource.k8s.io", *served, "resourceslices", false},
                                {.field_selector = field_selector});
    // The API server was replaced by another release.
    if (!list && list.error().code == ErrorCode::kNotFound) version->forget();
    if (!list) return unexpected(list.error());
    return std::move(list->at("items"));
  };
  return api;
}

DeviceReader::DeviceReader(ResourceApi api, const std::map<std::string, api::DeviceDriver>& drivers)
    : api_(std::move(api)), drivers_(drivers) {}

Result<api::DeviceFacts> DeviceReader::ask(const PodView& pod, const std::string& node) const {
  ClaimedDevices devices{
      .wanted = pod.injection->key_basis.claims.value_or(std::vector<std::string>()),
      .drivers = drivers_};
  const auto object = api_.pod(pod.ns, pod.name);
  if (!object) return unexpected(unreadable(object.error(), "reading the pod's claims"));
  const auto claims = claims_of_pod(*object);
  for (const std::string& wanted : devices.wanted) {
    const std::string in_pod(claim_of(wanted));
    const auto name = claims.find(in_pod);
    if (name == claims.end() || devices.claims.contains(in_pod)) continue;
    const auto claim = api_.claim(pod.ns, name->second);
    if (!claim && claim.error().code == ErrorCode::kNotFound) continue;
    if (!claim) {
      return unexpected(unreadable(claim.error(), "reading ResourceClaim " + name->second));
    }
    devices.claims[in_pod] = allocated_devices(*claim);
  }
  // A node's own pools first, which nearly all are; then those that several nodes reach.
  Result<api::DeviceFacts> facts = fail(ErrorCode::kInternal, "not looked");
  for (const std::string& selector : {"spec.nodeName=" + node, std::string("spec.nodeName=")}) {
    const auto slices = api_.slices(selector);
    if (!slices) return unexpected(unreadable(slices.error(), "reading the node's ResourceSlices"));
    for (const json& slice : *slices) add_slice(slice, devices.published);
    facts = device_facts(devices);
    if (facts || facts.error().reason != api::kDeviceNotPublished) break;
  }
  return facts;
}

Result<api::DeviceFacts> DeviceReader::read(const PodView& pod, const std::string& node) {
  {
    const MutexLock lock(mutex_);
    if (const auto found = known_.find(pod.uid); found != known_.end()) return found->second;
  }
  auto facts = ask(pod, node);
  if (!facts) {
    tell(pod, facts.error());
  } else {
    log_info("devices of a pod's claims", {{"namespace", pod.ns},
                                           {"pod", pod.name},
                                           {"gpu_product", facts->product},
                                           {"count", std::to_string(facts->count)}});
  }
  if (facts || facts.error().code == ErrorCode::kInvalid) settle(pod, facts);
  return facts;
}

void DeviceReader::settle(const PodView& pod, const Result<api::DeviceFacts>& facts) {
  const MutexLock lock(mutex_);
  if (known_.size() >= kRemembered) known_.clear();
  known_.insert_or_assign(pod.uid, facts);
  told_.erase(pod.uid);
}

// Once, though its agents ask again and again.
void DeviceReader::tell(const PodView& pod, const Error& error) {
  {
    const MutexLock lock(mutex_);
    if (told_.size() >= kRemembered) told_.clear();
    std::string& last = told_[pod.uid];
    if (last == error.message) return;
    last = error.message;
  }
  log_warn("a pod's devices are not known", {{"reason", error.reason},
                                             {"namespace", pod.ns},
                                             {"pod", pod.name},
                                             {"error", error.message}});
}

void DeviceReader::gone(const std::string& uid) {
  const MutexLock lock(mutex_);
  known_.erase(uid);
  told_.erase(uid);
}

}  // namespace compilecache::controller
