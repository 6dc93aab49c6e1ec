#pragma once

#include <compare>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/agent_config.hpp"
#include "api/archive_key.hpp"
#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "kube/fields.hpp"
#include "kube/resource.hpp"
#include "kube/store.hpp"
#include "operator/cluster/agent_service.hpp"
#include "operator/cluster/known.hpp"
#include "operator/cluster/pod_group.hpp"
#include "operator/cluster/refusals.hpp"

// The cluster as the operator sees it: slim structs in stores that reflectors fill, and queries on
// them.
//
//   ClusterStores stores;                      // reflectors write, see kube/reflector.hpp
//   ClusterView view(stores);
//   auto pod = view.pod("ml", "web-1");        // nullptr: not there (yet)
//   auto facts = view.node(pod->node);
//
// Tests fill the stores by hand. Thread-safe; the stores must outlive the view.

namespace compilecache::controller {

namespace resources {
inline const kube::Resource kCompileCaches{"compilecache.dev", "v1alpha1", "compilecaches", true};
inline const kube::Resource kCompileCacheArchives{"compilecache.dev", "v1alpha1",
                                                  "compilecachearchives", true};
}  // namespace resources

struct OwnerView {
  std::string api_version, kind, name, uid;

  auto operator<=>(const OwnerView&) const = default;
};

struct ContainerView {
  std::string name;
  std::string image_id;  // as resolved by the container runtime; empty before the pull
  bool init = false;     // native sidecars included
  bool running = false;
  std::string waiting_reason;  // "ErrImagePull", "CrashLoopBackOff", "PodInitializing", ...
  std::string waiting_message;
  std::string ended_reason;  // of the current or last end: "OOMKilled", "Error", "Completed"
  int exit_code = 0;
  int restarts = 0;

  auto operator<=>(const ContainerView&) const = default;
};

// How a container ended the last time.
struct ContainerEnd {
  std::string container;
  int count = 0;  // how often it has ended so far; the rest describes its last end
  // Whether it ended by a fault of its own: not with status 0, by SIGTERM or SIGKILL, by its memory
  // limit, or because the pod was ended.
  bool crash = false;

  auto operator<=>(const ContainerEnd&) const = default;
};

// A pod that carries our label, or belongs to a sweep Job. There are many, so what the pods of a
// workload have in common is in memory once. Anyone may write such pods, as large as the API server
// accepts: of each, some 30 kB are kept at most.
struct PodView {
  std::string ns, name, uid;
  std::string node;
  std::string phase;
  bool deleting = false;
  bool disrupted = false;  // evicted, preempted, over its deadline: its containers were ended
  std::string created;     // RFC 3339
  std::string service_account;
  std::string cache;  // our label: the CompileCache that was injected; empty: none
  std::string sweep;  // the CompileCache whose sweep Job this is; empty: an application
  PodGroup group;
  // The status annotation, where it can be read and is within its bounds, without the lists that
  // say how to take the injection out (api/injection_bounds.hpp).
  std::shared_ptr<const api::InjectionStatus> injection;
  std::shared_ptr<const OwnerView> owner;  // the controller
  std::string unschedulable;               // message of PodScheduled=False, reason Unschedulable
  bool ready = false;                      // all containers are, whatever its readiness gates say
  // Injected ones, those that use the cache, and some of the others: those first that run or have
  // run. Null: none has a status yet.
  std::shared_ptr<const std::vector<ContainerView>> containers;

  [[nodiscard]] bool ended() const { return phase == "Succeeded" || phase == "Failed"; }
  // The last end of each container that uses the cache.
  [[nodiscard]] std::vector<ContainerEnd> ends() const;
  // Whether a container that uses the cache runs.
  [[nodiscard]] bool runs() const;
  // The image of the first chosen container; empty before it was pulled.
  [[nodiscard]] std::string image_id() const;
};

struct NodeView {
  std::string name;
  api::NodeFacts facts;
};

// For kube::Reflector. They never fail on fields that they do not know or need. The functions
// beside them name the fields that they read (kube::ReflectorOptions::fields).
Result<PodView> parse_pod(const nlohmann::json& object);
const kube::Fields& pod_fields();
// Reads only metadata, so PartialObjectMetadata is enough.
Result<NodeView> parse_node(const nlohmann::json& object, const api::NodeLabels& names);
kube::Fields node_fields(const api::NodeLabels& names);
// Of our own kinds: all but labels and annotations, which are for others.
const kube::Fields& own_object_fields();

// Keys are "namespace/name", nodes' only the name; what indexes go by is "namespace/value".
struct ClusterStores {
  kube::Store<PodView> pods;        // label selector: compilecache.dev/cache
  kube::Store<PodView> sweep_pods;  // label selector: compilecache.dev/sweep
  kube::Store<NodeView> nodes;
  kube::Store<api::CompileCache> caches;
  kube::Store<api::CompileCacheArchive> archives;
  kube::Store<Refusal> refusals;  // field selector: reason=FailedCreate

  Known<api::OwnRegistry> registry;  // the installation's own
  Known<AgentService> agents;        // where agents reach the operator
  Known<std::string> load_address;   // where they reach any replica; "": nowhere

  // By the CompileCache that they are of, and CompileCaches by their claim.
  const kube::Store<PodView>::Index pods_by_cache{
      pods, [](const PodView& pod) { return kube::object_key(pod.ns, pod.cache); }};
  const kube::Store<PodView>::Index sweep_pods_by_cache{
      sweep_pods, [](const PodView& pod) { return kube::object_key(pod.ns, pod.sweep); }};
  const kube::Store<api::CompileCacheArchive>::Index archives_by_cache{
      archives, [](const api::CompileCacheArchive& archive) {
        return kube::object_key(archive.metadata.ns, archive.cache);
      }};
  const kube::Store<api::CompileCache>::Index caches_by_claim{
      caches, [](const api::CompileCache& cache) {
        const std::string claim = cache.spec.storage ? cache.spec.storage->claim_name : "";
        return claim.empty() ? std::string() : kube::object_key(cache.metadata.ns, claim);
      }};
};

class ClusterView {
 public:
  explicit ClusterView(const ClusterStores& stores) : stores_(stores) {}

  // An application's pod or a sweep Job's.
  [[nodiscard]] std::shared_ptr<const PodView> pod(std::string_view ns,
                                                   std::string_view name) const;
  // Pods that use this CompileCache, ended or not.
  [[nodiscard]] std::vector<std::shared_ptr<const PodView>> pods_of(std::string_view ns,
                                                                    std::string_view cache) const;
  // The pods of this CompileCache that have not ended.
  [[nodiscard]] std::vector<std::shared_ptr<const PodView>> active_pods(
      std::string_view ns, std::string_view cache) const;
  // Those of its sweeps' Jobs.
  [[nodiscard]] std::vector<std::shared_ptr<const PodView>> sweep_pods_of(
      std::string_view ns, std::string_view cache) const;
  [[nodiscard]] std::optional<api::NodeFacts> node(std::string_view name) const;
  [[nodiscard]] size_t nodes() const { return stores_.nodes.size(); }
  [[nodiscard]] std::shared_ptr<const api::CompileCache> cache(std::string_view ns,
                                                               std::string_view name) const;
  [[nodiscard]] std::vector<std::shared_ptr<const api::CompileCache>> caches() const {
    return stores_.caches.list();
  }
  // Those of a namespace.
  [[nodiscard]] std::vector<std::shared_ptr<const api::CompileCache>> caches_of(
      std::string_view ns) const {
    return stores_.caches.list(ns);
  }
  [[nodiscard]] std::shared_ptr<const api::CompileCacheArchive> archive(
      std::string_view ns, std::string_view name) const;
  [[nodiscard]] std::vector<std::shared_ptr<const api::CompileCacheArchive>> archives_of(
      std::string_view ns, std::string_view cache) const;
  // Where the CompileCache keeps its archives; see api::store_of().
  [[nodiscard]] std::optional<api::StoreRef> store_of(const api::CompileCache& cache) const {
    return api::store_of(cache, stores_.registry.get());
  }
  // Where archives are to be copied from; see api::copy_source_of().
  [[nodiscard]] std::optional<api::StoreRef> copy_source_of(const api::CompileCache& cache) const {
    return api::copy_source_of(cache, stores_.registry.get());
  }
  [[nodiscard]] api::OwnRegistry own_registry() const { return stores_.registry.get(); }
  [[nodiscard]] AgentService agent_service() const { return stores_.agents.get(); }
  // Pods of the namespace that were not admitted, for whatever reason.
  [[nodiscard]] std::vector<std::shared_ptr<const Refusal>> refusals(std::string_view ns) const {
    return stores_.refusals.list(ns);
  }

 private:
  const ClusterStores& stores_;
};

}  // namespace compilecache::controller
