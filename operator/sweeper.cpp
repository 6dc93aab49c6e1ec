#include "operator/sweeper.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.hpp"
#include "base/time_format.hpp"
#include "operator/archive_trust.hpp"
#include "operator/conditions.hpp"
#include "operator/sweep_ledger.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

// The Job controller makes a Job's pod within a second; when Pod Security refuses it, it tries
// again and tells it only in Events (seen on Kubernetes 1.35).
constexpr seconds kPodPatience{10};
// From then on a Job's pod that does not run is worth a word in the conditions.
constexpr seconds kJobPatience{20};
constexpr seconds kRecheck{5};

std::optional<WallTime> time_of(const std::string& text) {
  auto time = parse_time(text);
  if (text.empty() || !time) return std::nullopt;
  return *time;
}

std::string store_of(const api::CompileCache& cache) {
  return cache.spec.storage.claim_name + ":" + cache.spec.storage.sub_path;
}

}  // namespace

Sweeper::Sweeper(kube::Client client, const Settings& settings, SweepEnvironment environment,
                 const ClusterView& view, const kube::Store<SweepJob>& jobs,
                 const kube::Store<PodView>& sweep_pods, Metrics& metrics, const Clock& clock,
                 Random random)
    : client_(std::move(client)),
      settings_(settings),
      environment_(std::move(environment)),
      view_(view),
      jobs_(jobs),
      sweep_pods_(sweep_pods),
      metrics_(metrics),
      clock_(clock),
      random_(std::move(random)) {}

void Sweeper::take_over(const api::CompileCache& cache) {
  std::lock_guard<std::mutex> lock(mutex_);
  State& state = states_[cache.metadata.key()];
  if (state.last_report) return;  // a Job has told more than the status knows
  const auto* ready = api::find_condition(cache.status.conditions, kStorageReady);
  state.prepared = ready != nullptr && ready->status == "True";
  if (state.prepared) state.store = store_of(cache);
  // Changed while nobody led: what was prepared may be another store. It is looked at again without
  // closing the one that works.
  state.asked = state.prepared && ready->observed_generation != cache.metadata.generation;
  state.last_report = time_of(cache.status.last_sweep.time);
}

void Sweeper::forget(const std::string& cache) {
  std::lock_guard<std::mutex> lock(mutex_);
  states_.erase(cache);
}

void Sweeper::reported(const std::string& cache, const std::string& storage_error) {
  std::lock_guard<std::mutex> lock(mutex_);
  State& state = states_[cache];
  state.last_report = clock_.wall();
  state.prepared = storage_error.empty();
  state.storage_error = storage_error;
  state.trouble.clear();
  state.job.clear();  // it has run, whether our store has seen it or not
  state.failures = storage_error.empty() ? 0 : state.failures + 1;
}

void Sweeper::ask(const std::string& cache) {
  std::lock_guard<std::mutex> lock(mutex_);
  states_[cache].asked = true;
}

void Sweeper::probe(const std::string& cache, const std::string& node) {
  std::lock_guard<std::mutex> lock(mutex_);
  states_[cache].asked = true;
  states_[cache].node = node;
}

Sweeper::Probed Sweeper::probed(const std::string& cache, WallTime since) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = states_.find(cache);
  if (found == states_.end()) return Probed::kPending;
  const State& state = found->second;
  if (!state.last_start || *state.last_start < since) return Probed::kPending;
  if (state.last_report && *state.last_report >= *state.last_start) {
    return state.storage_error.empty() ? Probed::kSucceeded : Probed::kFailed;
  }
  const bool failed = state.last_failure && *state.last_failure >= *state.last_start;
  return failed ? Probed::kFailed : Probed::kPending;
}

void Sweeper::fill(const std::string& cache, StorageFacts& facts) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = states_.find(cache);
  if (found == states_.end()) return;
  facts.prepared = found->second.prepared;
  facts.storage_error = found->second.storage_error;
  // A store that works stays open while a later Job has trouble.
  if (!facts.prepared) facts.job_trouble = found->second.trouble;
}

Result<Duration> Sweeper::reconcile(const api::CompileCache& cache, const Claim& claim) {
  const std::string key = cache.metadata.key();
  State state;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    state = states_[key];
  }
  const State before = state;
  auto again = decide(state, cache, claim);
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = states_.find(key);
  if (found == states_.end()) return again;
  // A report that came meanwhile is newer than what we have.
  State& present = found->second;
  if (present.last_report == before.last_report) {
    present.prepared = state.prepared;
    present.storage_error = state.storage_error;
    present.trouble = state.trouble;
    present.failures = state.failures;
    present.job = state.job;
  }
  present.reason = state.reason;
  present.repeats = state.repeats;
  if (present.asked == before.asked) present.asked = state.asked;
  if (present.node == before.node) present.node = state.node;
  present.last_failure = state.last_failure;
  present.claim = state.claim;
  present.store = state.store;
  present.last_start = state.last_start;
  present.privilege = state.privilege;
  present.accounted = state.accounted;
  return again;
}

Result<Duration> Sweeper::decide(State& state, const api::CompileCache& cache, const Claim& claim) {
  notice_change_of_store(state, cache, claim);
  const auto jobs = jobs_of_claim(cache);
  bool running = false;
  const SweepJob* mine = nullptr;  // the newest of this CompileCache
  for (const SweepJob& job : jobs) {
    running |= job.state == SweepJob::State::kRunning;
    if (job.name == state.job) state.job.clear();
    if (job.cache_uid != cache.metadata.uid) continue;
    if (mine == nullptr || mine->created < job.created) mine = &job;
  }
  if (mine != nullptr) {
    if (!state.last_start || *state.last_start < mine->created) state.last_start = mine->created;
    if (mine->state == SweepJob::State::kRunning) return watch_over(state, cache, *mine);
    account(state, *mine);
  }
  // The Job that we started has not reached our store yet, or is gone before it did.
  if (state.last_start && clock_.wall() - *state.last_start > kJobPatience) state.job.clear();
  if (!state.job.empty()) running = true;
  const SweepDecision decision = decide_sweep(needs(state, cache, running), clock_.wall());
  if (!decision.start()) return running ? Duration(kRecheck) : decision.again_after;
  const bool again = decision.reason == state.reason &&
                     (decision.reason == "suspect" || decision.reason == "condemned");
  state.repeats = again ? state.repeats + 1 : 0;
  state.reason = decision.reason;
  log_info("starting a sweep", {{"cache", cache.metadata.key()}, {"why", decision.reason}});
  if (auto started = start(state, cache, claim); !started) return unexpected(started.error());
  return kPodPatience;
}

void Sweeper::notice_change_of_store(State& state, const api::CompileCache& cache,
                                     const Claim& claim) {
  const std::string store = store_of(cache);
  const bool other_claim = !state.claim.empty() && state.claim != claim.uid;
  if (other_claim || (!state.store.empty() && state.store != store)) {
    state.prepared = false;
    state.storage_error.clear();
    state.trouble.clear();
    state.failures = 0;
    state.last_start.reset();
  }
  state.claim = claim.uid;
  state.store = store;
}

std::vector<SweepJob> Sweeper::jobs_of_claim(const api::CompileCache& cache) const {
  std::vector<SweepJob> found;
  for (const auto& job : jobs_.list(cache.metadata.ns)) {
    if (!job->deleting && job->claim == cache.spec.storage.claim_name) found.push_back(*job);
  }
  return found;
}

// The Job is over. One that reported has told everything; one that did not has failed.
void Sweeper::account(State& state, const SweepJob& job) {
  if (state.accounted == job.uid) return;
  state.accounted = job.uid;
  const bool reported = state.last_report && *state.last_report >= job.created;
  if (reported) {
    state.privilege = job.privilege;
    return;
  }
  metrics_.sweep(job.ns, job.cache, "failed");
  state.last_failure = clock_.wall();
  ++state.failures;
  state.trouble = "Job \"" + job.name + "\" ended without a report" +
                  (job.failure.empty() ? "" : " (" + job.failure + ")") +
                  "; see kubectl logs job/" + job.name;
  log_warn("a sweep failed", {{"cache", job.ns + "/" + job.cache}, {"why", state.trouble}});
}

Result<Duration> Sweeper::watch_over(State& state, const api::CompileCache& cache,
                                     const SweepJob& job) {
  const auto age = clock_.wall() - job.created;
  if (job.active == 0 && age >= kPodPatience) {
    if (job.privilege + 1 < sweep_privileges().size()) {
      if (auto done = step_down(state, job); !done) return unexpected(done.error());
      return Duration(seconds(1));
    }
    state.trouble =
        "no pod of Job \"" + job.name + "\" appears; see kubectl describe job " + job.name;
  } else if (age >= kJobPatience) {
    state.trouble.clear();
    for (const auto& pod : sweep_pods_.list(job.ns)) {
      if (pod->sweep != cache.metadata.name || pod->ended()) continue;
      if (const std::string why = pod_trouble(*pod); !why.empty()) {
        state.trouble = "Job \"" + job.name + "\": " + why;
      }
    }
  }
  return Duration(kRecheck);
}

Status Sweeper::step_down(State& state, const SweepJob& job) {
  state.privilege = job.privilege + 1;
  state.last_start.reset();  // at once
  state.asked = true;
  log_info(
      "no pod of a sweep appears, trying with less",
      {{"job", job.ns + "/" + job.name}, {"next", sweep_privileges()[job.privilege + 1].name}});
  auto removed = client_.remove(kube::resources::kJobs, job.ns, job.name,
                                {.uid = job.uid, .propagation = "Background"});
  if (!removed && removed.error().code != ErrorCode::kNotFound) {
    return unexpected(removed.error().with("deleting a Job whose pod does not appear"));
  }
  return {};
}

SweepNeeds Sweeper::needs(const State& state, const api::CompileCache& cache, bool running) const {
  SweepNeeds needs{.may_run = true,
                   .running = running,
                   .prepared = state.prepared,
                   .last_start = state.last_start,
                   .last_report = state.last_report,
                   .failures = state.failures,
                   .repeats = state.repeats,
                   .asked = state.asked,
                   .interval = cache.spec.retention.sweep_interval,
                   .min_interval = settings_.sweep.min_interval};
  for (const auto& archive : view_.archives_of(cache.metadata.ns, cache.metadata.name)) {
    needs.suspects |= !manifests_to_check(*archive).empty();
  }
  for (const api::CondemnedBlob& blob : cache.status.condemned) {
    const auto since = time_of(blob.since);
    if (!since) continue;
    const WallTime over = *since + grace_of(settings_.sweep.grace, cache.spec);
    if (!needs.first_deletable || over < *needs.first_deletable) needs.first_deletable = over;
  }
  return needs;
}

Status Sweeper::start(State& state, const api::CompileCache& cache, const Claim& claim) {
  if (!state.privilege) {
    auto level = pod_security_level(cache.metadata.ns);
    if (!level) return unexpected(level.error());
    state.privilege = first_privilege(*level);
  }
  SweepJobInput input{.name = sweep_job_name(cache.metadata.name, random_id(random_)),
                      .image = environment_.image,
                      .cluster_uid = environment_.cluster_uid,
                      .privilege = *state.privilege,
                      .node = is_single_node(claim) ? node_of(cache) : state.node,
                      .agent_address = environment_.agent_address,
                      .agent_name = environment_.agent_name,
                      .agent_ca = environment_.agent_ca(),
                      .agent_port = environment_.agent_port};
  auto created = client_.create(kube::resources::kJobs, sweep_job(cache, input, settings_));
  if (!created) {
    // The Job's policy, a quota or a namespace that is ending: people can see it and act.
    state.trouble = "creating a Job: " + created.error().message;
    ++state.failures;
    state.last_start = state.last_failure = clock_.wall();
    const ErrorCode code = created.error().code;
    if (code == ErrorCode::kForbidden || code == ErrorCode::kInvalid) return {};
    return unexpected(created.error().with("creating a sweep Job for " + cache.metadata.key()));
  }
  state.job = input.name;
  state.last_start = clock_.wall();
  state.asked = false;
  state.node.clear();
  return {};
}

Result<std::string> Sweeper::pod_security_level(const std::string& ns) const {
  auto found = client_.get(kube::resources::kNamespaces, "", ns, {.metadata_only = true});
  if (!found) return unexpected(found.error().with("reading the Pod Security level of " + ns));
  const json labels = found->value("metadata", json::object()).value("labels", json::object());
  return labels.value("pod-security.kubernetes.io/enforce", "");
}

// Where a claim for one node is in use; empty when it is nowhere.
std::string Sweeper::node_of(const api::CompileCache& cache) const {
  for (const auto& pod : view_.active_pods(cache.metadata.ns, cache.metadata.name)) {
    if (!pod->node.empty() && pod->phase == "Running") return pod->node;
  }
  return {};
}

}  // namespace compilecache::controller
