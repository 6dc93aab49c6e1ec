#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/store_ref.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "kube/client.hpp"
#include "kube/store.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/settings/settings.hpp"
#include "operator/storage/storage_check.hpp"
#include "operator/storage/sweep_job.hpp"
#include "operator/storage/sweep_schedule.hpp"

// Starts the Jobs that prepare and sweep stores, one at a time for each store, and keeps their
// results.
//
//   sweeper.take_over(*cache);                         // once, when a leader first sees it
//   sweeper.reported(key, job_uid, "");                // a Job has reported its end
//   sweeper.ask(key);                                  // archives were deleted: sweep soon
//   auto again = sweeper.reconcile(*cache, claim);     // starts a Job when one is due
//   sweeper.fill(key, facts);                          // for check_storage()
//
// Its state is in memory; a new leader starts from the CompileCache's status and the Jobs that run.
// Jobs are identified by uid, and all times are by our own clock, not the API server's. A Job that
// disappears before it has ended counts as failed. Jobs that the operator has not created (by uid:
// the status names the newest for the next leader) do not count, whatever their labels and owners
// say: authors of Jobs write those. Thread-safe; reconcile() calls the API server,
// and runs in one thread at a time for each CompileCache.

namespace compilecache::controller {

// What all Jobs have in common, found once by the leader.
struct SweepEnvironment {
  std::string image;
  std::string cluster_uid;
  std::string agent_name;
  int agent_port = 443;
  std::function<std::string()> agent_ca;  // the bundle as it is now
  std::vector<podspec::Variable> proxy;   // the operator's own, which leads out of the cluster
};

class Sweeper {
 public:
  Sweeper(kube::Client client, const Settings& settings, SweepEnvironment environment,
          const ClusterView& view, const SweepJobs& jobs, Metrics& metrics, const Clock& clock,
          Random random);

  void take_over(const api::CompileCache& cache);
  void forget(const std::string& cache);

  // A Job has reported its end. `job` is its uid; an empty `storage_error` means that the store can
  // be used.
  // `trouble`: the same as a registry's word.
  void reported(const std::string& cache, const std::string& job, const std::string& storage_error,
                std::optional<api::RegistryTrouble> trouble = std::nullopt);
  // A Job has reported that it could use the store, but that something failed. `again`: what it was
  // for is still to be done, and it counts as a failed Job.
  void reported_failure(const std::string& cache, const std::string& job, const std::string& why,
                        bool again);
  void ask(const std::string& cache);
  // Whether we created that Job (its uid), and it is the newest for that CompileCache or the one
  // before; also one that a previous leader noted in the status.
  [[nodiscard]] bool created(const std::string& cache, const std::string& job) const;
  // The uid of the newest Job that was created, for the status; empty: none was by us.
  [[nodiscard]] std::string newest_job(const std::string& cache) const;
  // Sweeps soon, on that node (empty: on any), to find out whether what pods need works there. Pass
  // the result to probed().
  int64_t probe(const std::string& cache, const std::string& node);
  // The outcome of the first Job that was started after that call of probe().
  enum class Probed { kPending, kSucceeded, kFailed };
  [[nodiscard]] Probed probed(const std::string& cache, int64_t probe) const;

  // Starts a Job if one is due. Returns when to reconcile again; 0: when something changes.
  // `claim`: of a store on a volume.
  Result<Duration> reconcile(const api::CompileCache& cache, const std::optional<ClaimView>& claim);

  // The store that spec.storage.adopt has been done for, for status.adoptedStore; "": none.
  [[nodiscard]] std::string adopted(const std::string& cache) const;
  // Fills in prepared, storage_error, storage_trouble, job_trouble, sweep_trouble and copy_trouble.
  void fill(const std::string& cache, StorageFacts& facts) const;

 private:
  // Calls by other threads, kept until reconcile() handles them.
  struct Report {
    std::string job, storage_error;
    std::optional<api::RegistryTrouble> storage_trouble;
    WallTime time{};
    std::string failure;  // although the store can be used
    bool again = false;
  };
  struct Mail {
    std::vector<Report> reports;
    bool asked = false;
    std::optional<std::string> node;  // to probe
  };
  struct State {
    bool prepared = false;
    std::string storage_error;
    std::optional<api::RegistryTrouble> storage_trouble;
    std::string trouble;                 // with the last Job
    std::string failure;                 // of the last Job that ended; empty: it did all
    std::string adopted;                 // status.adoptedStore
    std::string claim;                   // uid of the claim that was prepared
    std::optional<api::StoreRef> store;  // that was prepared
    std::optional<WallTime> last_start, last_report;
    int failures = 0;
    int64_t generation = 0;  // of the CompileCache when it was last looked at; 0: not yet
    std::string reason;      // of the last Job
    int repeats = 0;         // Jobs in a row that were started again for that reason
    bool asked = false;
    std::string copy;                 // what a Job was last asked to copy
    bool copies = false;              // the last Job
    std::string copy_trouble;         // with the last Job that copies
    std::string node;                 // for the next Job, where one is to be tried
    std::optional<size_t> privilege;  // that was found to work, or to be tried next
    std::string level;                // of Pod Security, when that was found
    // The Job that runs, by uid; empty: it has reported or ended, or there is none.
    std::string job;
    std::string last_job;     // the one before, or the same
    std::string noted_job;    // the one that the status named when we took over
    bool noted_none = false;  // an earlier release wrote that status, and noted none
    Monotonic job_since{};    // when we first knew of it
    bool job_seen = false;    // our store has had it
    AgentService agents;      // by which Jobs reached us when we last looked
    std::string job_address;  // that the Job we started last was given
    int64_t started = 0;      // Jobs, by us
    int64_t ended = 0;        // how many of them when the last one came to its end
    bool good = false;        // how it ended
  };

  static void end_job(State& state, bool good);
  void read(State& state, const Mail& mail) const;
  static void notice_change_of_spec(State& state, const api::CompileCache& cache);
  void notice_change_of_address(State& state) const;
  static bool is_astray(const State& state, const SweepJob& job);
  Status give_up_astray(State& state, const SweepJob& job) const;
  void notice_change_of_store(State& state, const api::CompileCache& cache,
                              const std::optional<ClaimView>& claim);
  static void note_adopted(State& state, const api::CompileCache& cache);
  std::vector<SweepJob> jobs_of_store(const State& state, const api::CompileCache& cache) const;
  [[nodiscard]] static bool knows(const State& state, const std::string& job);
  [[nodiscard]] bool is_created(const std::string& ns, const std::string& job) const;
  const SweepJob* job_under_way(State& state, const api::CompileCache& cache,
                                const std::vector<SweepJob>& jobs) const;
  void failed(State& state, const api::CompileCache& cache, const std::string& trouble) const;
  void account(State& state, const api::CompileCache& cache, const SweepJob& job) const;
  Result<Duration> watch_over(State& state, const api::CompileCache& cache, const SweepJob& job);
  [[nodiscard]] std::vector<std::shared_ptr<const PodView>> pods_of(const api::CompileCache& cache,
                                                                    const SweepJob& job) const;
  [[nodiscard]] bool has_begun(const api::CompileCache& cache, const SweepJob& job) const;
  Status copy_no_more(State& state, const api::CompileCache& cache, const SweepJob& job);
  Status step_down(State& state, const SweepJob& job);
  Status remove_job(const SweepJob& job) const;
  SweepNeeds needs(const State& state, const api::CompileCache& cache, bool running) const;
  Status start(State& state, const api::CompileCache& cache, const std::optional<ClaimView>& claim);
  static bool may_copy(const State& state, const api::CompileCache& cache);
  static void want_copy(State& state, const api::CompileCache& cache);
  Status choose_privilege(State& state, const std::string& ns) const;
  std::string node_of(const api::CompileCache& cache) const;
  Result<Duration> decide(State& state, const api::CompileCache& cache,
                          const std::optional<ClaimView>& claim);

  const kube::Client client_;
  const Settings& settings_;
  const SweepEnvironment environment_;
  const ClusterView& view_;
  const SweepJobs& jobs_;
  Metrics& metrics_;
  const Clock& clock_;
  const Random random_;
  mutable Mutex mutex_;  // calls are made on a copy of what it guards
  std::map<std::string, State> states_ GUARDED_BY(mutex_);
  std::map<std::string, Mail> mails_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
