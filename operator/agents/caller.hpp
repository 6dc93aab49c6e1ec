#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/archive_key.hpp"
#include "api/compile_cache.hpp"
#include "api/store_ref.hpp"
#include "base/error.hpp"
#include "kube/events.hpp"
#include "operator/agents/token_auth.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/pods/pod_ledger.hpp"

// Who calls the agent API: the live pod whose token was shown, and its CompileCache.
//
//   const Callers callers(view, auth, {...});
//   const Result<Caller> caller = callers.identify(bearer_token, peer);
//
// Thread-safe. identify() may block on the API server; all parts must outlive it.

namespace compilecache::controller {

struct Caller {
  TokenIdentity identity;
  std::shared_ptr<const PodView> pod;
  std::shared_ptr<const api::CompileCache> cache;
  bool sweeper = false;  // the pod of a sweep Job that the operator created, no application's
  // The store whose limits the caller's loads count for; nothing where it keeps no archives.
  std::optional<api::StoreRef> store = {};
  // What its resourceClaims were given, or why that is not known; nothing for a pod that gets no
  // GPUs by them.
  std::optional<Result<api::DeviceFacts>> devices = {};

  [[nodiscard]] const std::string& ns() const { return identity.ns; }
  // "namespace/name" of the CompileCache
  [[nodiscard]] std::string key() const { return cache->metadata.key(); }
  [[nodiscard]] const std::string& node() const {
    return identity.node.empty() ? pod->node : identity.node;
  }
};

struct CallerHooks {
  // An application's pod has called, whatever it asks for.
  std::function<void(const PodView& pod)> spoke;
  // A pod that the view does not have yet, from the API server; kNotFound when there is none.
  std::function<Result<PodView>(const std::string& ns, const std::string& name)> fetch_pod;
  // Which devices its resourceClaims were given on that node (DeviceReader::read).
  std::function<Result<api::DeviceFacts>(const PodView& pod, const std::string& node)> devices;
  // Whether the operator itself has created that Job (its uid) for that CompileCache
  // ("namespace/name"). Labels and owners are what anybody may write who may create Jobs.
  std::function<bool(const std::string& cache, const std::string& job)> is_sweep_job;
};

class Callers {
 public:
  Callers(const ClusterView& view, TokenAuth& auth, CallerHooks hooks);

  // kUnauthorized, kForbidden (not an injected pod), kNotFound (no such CompileCache),
  // kUnavailable.
  Result<Caller> identify(std::string_view token, std::string_view peer) const;

 private:
  [[nodiscard]] Result<std::shared_ptr<const PodView>> pod_of(const TokenIdentity& identity) const;
  [[nodiscard]] bool is_sweeper(const PodView& pod) const;

  const ClusterView& view_;
  TokenAuth& auth_;
  const CallerHooks hooks_;
};

// An application's pod, and `named`, where a message names a CompileCache, is its own; kForbidden.
Status check_application(const Caller& caller, const std::string& named);

// The cluster's facts of an application's pod. kUnavailable: its node, or what it was given by
// its resourceClaims, is not known yet; then `reason` says why.
Result<api::ArchiveKey> key_of(const ClusterView& view, const Caller& caller);
// "" where it is not known.
std::string product_of(const ClusterView& view, const Caller& caller);
// For people; empty when it is not known, or so long that it would fill the status.
api::ArchiveKey displayable_key(const ClusterView& view, const Caller& caller);

// "namespace/archive" of the caller's exact key.
std::string archive_of(const Caller& caller, const api::ArchiveKey& key);

// The kind of CPU of the pod's host, as its loader has said, in the ledger: the pods of a kind
// compile for each other.
struct PodHost {
  std::string cpu;
};
// "namespace/archive" for which single flight is counted: one for each kind of host.
std::string flight_of(const PodLedger& pods, const Caller& caller, const api::ArchiveKey& key);

// An Event on the pod, and one that names the pod on its owner, which outlives it.
void record_event(kube::EventSink& events, const Caller& caller, kube::EventType type,
                  const std::string& reason, const std::string& message);

}  // namespace compilecache::controller
