#include "operator/agents/caller.hpp"

#include <utility>

#include "base/printable.hpp"
#include "operator/cluster/pod_events.hpp"

namespace compilecache::controller {
namespace {

constexpr size_t kKeyLength = 1024;

}  // namespace

Callers::Callers(const ClusterView& view, TokenAuth& auth, CallerHooks hooks)
    : view_(view), auth_(auth), hooks_(std::move(hooks)) {}

Result<std::shared_ptr<const PodView>> Callers::pod_of(const TokenIdentity& identity) const {
  auto pod = view_.pod(identity.ns, identity.pod);
  if (pod == nullptr || pod->uid != identity.pod_uid) {
    // Created a moment ago, perhaps under the name of one that has just gone.
    if (!hooks_.fetch_pod)
      return fail(ErrorCode::kForbidden, "pod " + identity.pod + " is unknown");
    auto fetched = hooks_.fetch_pod(identity.ns, identity.pod);
    if (!fetched && fetched.error().code != ErrorCode::kNotFound) {
      return unexpected(fetched.error().with("looking up the caller's pod"));
    }
    if (!fetched || fetched->uid != identity.pod_uid) {
      return fail(ErrorCode::kForbidden, "pod " + identity.ns + "/" + identity.pod +
                                             " was deleted; its token is no longer served");
    }
    pod = std::make_shared<const PodView>(std::move(*fetched));
  }
  return pod;
}

// By the Job's uid, which the operator noted when it created the Job: in memory, and for the next
// leader in the CompileCache's status.
bool Callers::is_sweeper(const PodView& pod) const {
  if (pod.sweep.empty() || pod.owner == nullptr || pod.owner->kind != "Job") return false;
  const std::string& job = pod.owner->uid;
  if (job.empty()) return false;
  if (hooks_.is_sweep_job && hooks_.is_sweep_job(kube::object_key(pod.ns, pod.sweep), job)) {
    return true;
  }
  const auto cache = view_.cache(pod.ns, pod.sweep);
  return cache != nullptr && cache->status.sweep_job == job;
}

Result<Caller> Callers::identify(std::string_view token, std::string_view peer) const {
  auto identity = auth_.identify(token, peer);
  if (!identity) return unexpected(identity.error());
  auto pod = pod_of(*identity);
  if (!pod) return unexpected(pod.error());
  Caller caller{std::move(*identity), std::move(*pod), nullptr, false};
  caller.sweeper = is_sweeper(*caller.pod);
  if (!caller.sweeper && !caller.pod->sweep.empty()) {
    return fail(ErrorCode::kForbidden, "pod " + caller.ns() + "/" + caller.pod->name +
                                           " belongs to no sweep Job that this operator created");
  }
  if (!caller.sweeper && (caller.pod->cache.empty() || !caller.pod->injection)) {
    return fail(
        ErrorCode::kForbidden,
        "pod " + caller.ns() + "/" + caller.pod->name +
            " does not carry our injection; only pods that the webhook injected are served");
  }
  if (!caller.sweeper && hooks_.spoke) hooks_.spoke(*caller.pod);
  const std::string& name = caller.sweeper ? caller.pod->sweep : caller.pod->cache;
  caller.cache = view_.cache(caller.ns(), name);
  if (caller.cache == nullptr || caller.cache->metadata.deleting) {
    return fail(ErrorCode::kNotFound, "CompileCache " + caller.ns() + "/" + name +
                                          " was deleted; create it again to load and save");
  }
  caller.store = view_.store_of(*caller.cache);
  if (!caller.sweeper && caller.pod->injection->key_basis.claims) {
    caller.devices = hooks_.devices
                         ? hooks_.devices(*caller.pod, caller.node())
                         : fail(ErrorCode::kUnavailable, "nobody looks at resourceClaims here");
  }
  return caller;
}

Status check_application(const Caller& caller, const std::string& named) {
  if (!named.empty() && named != caller.cache->metadata.name) {
    return fail(ErrorCode::kForbidden, "pod " + caller.pod->name +
                                           " was injected for CompileCache " +
                                           caller.cache->metadata.name + ", not for " + named);
  }
  if (caller.sweeper) {
    return fail(ErrorCode::kForbidden, "a sweep Job's pod neither loads nor saves");
  }
  return {};
}

Result<api::ArchiveKey> key_of(const ClusterView& view, const Caller& caller) {
  const auto facts = view.node(caller.node());
  if (!facts) {
    return fail(ErrorCode::kUnavailable, "node " + caller.node() + " is not known yet; ask again");
  }
  if (caller.devices && !*caller.devices) return unexpected(caller.devices->error());
  return api::make_key(caller.pod->injection->key_basis, *facts,
                       caller.devices ? &**caller.devices : nullptr);
}

std::string product_of(const ClusterView& view, const Caller& caller) {
  const auto key = key_of(view, caller);
  if (!key) return "";
  const auto product = key->find(api::kGpuProductPart);
  return product == key->end() ? "" : product->second;
}

api::ArchiveKey displayable_key(const ClusterView& view, const Caller& caller) {
  const auto key = key_of(view, caller);
  if (!key) return {};
  size_t length = 0;
  for (const auto& [part, value] : *key) length += part.size() + value.size();
  if (length > kKeyLength) return {};
  api::ArchiveKey shown;
  for (const auto& [part, value] : *key) shown[printable(part)] = printable(value);
  return shown;
}

std::string archive_of(const Caller& caller, const api::ArchiveKey& key) {
  return caller.ns() + "/" + api::archive_name(caller.cache->metadata.name, key);
}

std::string flight_of(const PodLedger& pods, const Caller& caller, const api::ArchiveKey& key) {
  const std::string cpu = pods.find<PodHost>(caller.pod->uid).value_or(PodHost{}).cpu;
  return archive_of(caller, api::with_cpu(key, cpu));
}

void record_event(kube::EventSink& events, const Caller& caller, kube::EventType type,
                  const std::string& reason, const std::string& message) {
  const PodView& pod = *caller.pod;
  events.record({pod_reference(pod), type, reason, message});
  if (const auto& owner = pod.owner) {
    events.record({{owner->api_version, owner->kind, pod.ns, owner->name, owner->uid},
                   type,
                   reason,
                   "pod " + pod.name + ": " + message});
  }
}

}  // namespace compilecache::controller
