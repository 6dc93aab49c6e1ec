#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/store_ref.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/settings/settings.hpp"
#include "podspec/pod_fragments.hpp"

// The Job that prepares and sweeps the store of one CompileCache: its manifest, and what we read of
// Jobs in the API server. Pure; safe from any thread.

namespace compilecache::controller {

// A way to run the Job's container. The first one that the namespace's Pod Security level permits
// is tried, and when no pod appears the next.
struct SweepPrivilege {
  const char* name;  // for messages and the Job's annotation
  bool root;         // as uid 0 with the capabilities below, else as the image's own user
  // The strictest Pod Security level that permits it: "baseline", "restricted".
  const char* enforced;
};
std::span<const SweepPrivilege> sweep_privileges();

// The index of the first of sweep_privileges() to try where that level is enforced ("" or unknown:
// no level). A registry takes none: only directories have owners.
size_t first_privilege(const api::StoreRef& store, const std::string& pod_security_level);

// The parts of the manifest that do not come from the CompileCache.
struct SweepJobInput {
  std::string name;                             // of the Job
  api::StoreRef store;                          // the CompileCache's
  std::optional<api::StoreRef> copy_from = {};  // whose archives are to be copied into it
  std::string image;                            // of compilecache-agent
  std::string cluster_uid;                      // of kube-system
  size_t privilege = 0;                         // index into sweep_privileges()
  // The node to run on, because a ReadWriteOnce claim is attached there or it is to be probed;
  // empty: any node.
  std::string node;
  std::string agent_address, agent_name, agent_ca;  // of the agent API
  int agent_port = 443;
  std::vector<podspec::Variable> proxy = {};  // that leads to a user's registry
  bool adopted = false;                       // spec.storage.adopt has been done for this store
};
nlohmann::json sweep_job(const api::CompileCache& cache, const SweepJobInput& input,
                         const Settings& settings);

// The name of a new Job: the CompileCache's, cut so that it fits a label, and `nonce`.
std::string sweep_job_name(const std::string& cache, const std::string& nonce);

// The part of a Job with our label that we use.
struct SweepJob {
  std::string ns, name, uid;
  std::string cache, cache_uid;
  std::optional<std::string> store;  // its id
  size_t privilege = 0;
  WallTime created{};
  bool deleting = false;
  int active = 0;
  enum class State { kRunning, kSucceeded, kFailed } state = State::kRunning;
  std::string failure;  // "BackoffLimitExceeded: ..."
};
Result<SweepJob> parse_sweep_job(const nlohmann::json& object);
const kube::Fields& sweep_job_fields();  // what it looks at

// The sweep Jobs that there are, found by their store's id too.
struct SweepJobs {
  kube::Store<SweepJob> store;
  const kube::Store<SweepJob>::Index by_store{
      store, [](const SweepJob& job) { return job.store.value_or(""); }};
};

// Why a pod of the Job does not run: unschedulable, image not pulled. Empty: no trouble.
std::string pod_trouble(const PodView& pod);

}  // namespace compilecache::controller
