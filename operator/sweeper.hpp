#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "kube/client.hpp"
#include "kube/store.hpp"
#include "operator/cluster_view.hpp"
#include "operator/metrics.hpp"
#include "operator/settings.hpp"
#include "operator/storage_check.hpp"
#include "operator/sweep_job.hpp"
#include "operator/sweep_schedule.hpp"

// Starts the Jobs that prepare and sweep stores, one at a time for each claim, and tells what they
// found.
//
//   sweeper.take_over(*cache);                         // once, when a leader first meets it; what
//                                                      // a Job has told before stays
//   sweeper.reported(key, "", now);                    // the agent API heard a Job's end
//   sweeper.ask(key);                                  // archives were deleted: sweep soon
//   auto again = sweeper.reconcile(*cache, claim);     // starts a Job when one is due
//   sweeper.fill(key, facts);                          // for check_storage()
//
// What it knows is in memory; a new leader starts from the CompileCache's status and the Jobs that
// exist. Thread-safe; reconcile() calls the API server, one thread at a time for each CompileCache.

namespace compilecache::controller {

// What every Job is made of, found once by the leader.
struct SweepEnvironment {
  std::string image;
  std::string cluster_uid;
  std::string agent_address, agent_name;
  int agent_port = 443;
  std::function<std::string()> agent_ca;  // the bundle as it is now
};

class Sweeper {
 public:
  Sweeper(kube::Client client, const Settings& settings, SweepEnvironment environment,
          const ClusterView& view, const kube::Store<SweepJob>& jobs,
          const kube::Store<PodView>& sweep_pods, Metrics& metrics, const Clock& clock,
          Random random);

  void take_over(const api::CompileCache& cache);
  void forget(const std::string& cache);

  // `storage_error` empty: the volume does what is needed.
  void reported(const std::string& cache, const std::string& storage_error);
  void ask(const std::string& cache);
  // Sweep soon, on that node (empty: on any), to see whether what pods need works there.
  void probe(const std::string& cache, const std::string& node);
  // What became of the first Job that was started since then.
  enum class Probed { kPending, kSucceeded, kFailed };
  [[nodiscard]] Probed probed(const std::string& cache, WallTime since) const;

  // Starts a Job if one is due. The result says when to come again; 0: when something changes.
  Result<Duration> reconcile(const api::CompileCache& cache, const Claim& claim);

  // prepared, storage_error and job_trouble.
  void fill(const std::string& cache, StorageFacts& facts) const;

 private:
  struct State {
    bool prepared = false;
    std::string storage_error;
    std::string trouble;  // with the last Job
    std::string claim;    // uid of the claim that was prepared
    std::string store;    // claim and subPath that were prepared
    std::optional<WallTime> last_start, last_report, last_failure;
    int failures = 0;
    std::string reason;  // of the last Job
    int repeats = 0;     // Jobs in a row that were started again for that reason
    bool asked = false;
    std::string node;                 // for the next Job, where one is to be tried
    std::optional<size_t> privilege;  // that was found to work, or to be tried next
    std::string job;                  // that we started last and may not have seen yet
    std::string accounted;            // uid of the Job whose end was counted
  };

  void notice_change_of_store(State& state, const api::CompileCache& cache, const Claim& claim);
  std::vector<SweepJob> jobs_of_claim(const api::CompileCache& cache) const;
  void account(State& state, const SweepJob& job);
  Result<Duration> watch_over(State& state, const api::CompileCache& cache, const SweepJob& job);
  Status step_down(State& state, const SweepJob& job);
  SweepNeeds needs(const State& state, const api::CompileCache& cache, bool running) const;
  Status start(State& state, const api::CompileCache& cache, const Claim& claim);
  Result<std::string> pod_security_level(const std::string& ns) const;
  std::string node_of(const api::CompileCache& cache) const;
  Result<Duration> decide(State& state, const api::CompileCache& cache, const Claim& claim);

  const kube::Client client_;
  const Settings& settings_;
  const SweepEnvironment environment_;
  const ClusterView& view_;
  const kube::Store<SweepJob>& jobs_;
  const kube::Store<PodView>& sweep_pods_;
  Metrics& metrics_;
  const Clock& clock_;
  const Random random_;
  mutable std::mutex mutex_;  // guards states_; calls are made on a copy
  std::map<std::string, State> states_;
};

}  // namespace compilecache::controller
