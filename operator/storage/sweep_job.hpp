#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "api/compile_cache.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/settings/settings.hpp"

// The Job that prepares and sweeps the store of one CompileCache: its manifest, and what one in the
// API server says about itself. Pure; safe from any thread.

namespace compilecache::controller {

// A way to run the Job's container. The first that the namespace's Pod Security level lets is
// tried, then the next, when no pod appears.
struct SweepPrivilege {
  const char* name;      // for messages and the Job's annotation
  bool root;             // as uid 0 with the capabilities below, else as the image's own user
  const char* enforced;  // the strictest Pod Security level that lets it: "baseline", "restricted"
};
std::span<const SweepPrivilege> sweep_privileges();

// The first of sweep_privileges() worth trying where that level is enforced ("" or unknown: none
// is).
size_t first_privilege(const std::string& pod_security_level);

// What the manifest is made of, besides the CompileCache.
struct SweepJobInput {
  std::string name;         // of the Job
  std::string image;        // of compilecache-agent
  std::string cluster_uid;  // of kube-system
  size_t privilege = 0;     // index into sweep_privileges()
  // Where a ReadWriteOnce claim is attached, or pods could not start; empty: any node.
  std::string node;
  std::string agent_address, agent_name, agent_ca;  // of the agent API
  int agent_port = 443;
};
nlohmann::json sweep_job(const api::CompileCache& cache, const SweepJobInput& input,
                         const Settings& settings);

// The name of a new Job: the CompileCache's, cut so that it fits a label, and `nonce`.
std::string sweep_job_name(const std::string& cache, const std::string& nonce);

// What we use of a Job that carries our label.
struct SweepJob {
  std::string ns, name, uid;
  std::string cache, cache_uid;
  std::string claim;
  size_t privilege = 0;
  WallTime created{};
  bool deleting = false;
  int active = 0;
  enum class State { kRunning, kSucceeded, kFailed } state = State::kRunning;
  std::string failure;  // "BackoffLimitExceeded: ..."
};
Result<SweepJob> parse_sweep_job(const nlohmann::json& object);

// Those that there are, found by "namespace/claim" too.
struct SweepJobs {
  kube::Store<SweepJob> store;
  const kube::Store<SweepJob>::Index by_claim{
      store, [](const SweepJob& job) { return kube::object_key(job.ns, job.claim); }};
};

// Why a pod of the Job does not get to run: unschedulable, image not pulled. Empty: nothing to
// report.
std::string pod_trouble(const PodView& pod);

}  // namespace compilecache::controller
