#include "operator/storage/sweeper.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "kube/json.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/storage/sweep_ledger.hpp"
#include "operator/storage/sweep_refusal.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

// The Job controller makes a Job's pod within a second, on a busy cluster later.
constexpr seconds kPodPatience{10};
// After this time a Job's pod that does not run is reported in the conditions.
constexpr seconds kJobPatience{20};
// A Job that copies and has not begun by then makes room for one that only sweeps: what it copies
// from may be a claim that nobody can mount.
constexpr seconds kCopyPatience{180};
constexpr seconds kRecheck{5};
// A Job's message ends up in a condition.
constexpr size_t kLongestWhy = 1000;

std::optional<WallTime> time_of(const std::string& text) {
  auto time = parse_time(text);
  if (text.empty() || !time) return std::nullopt;
  return *time;
}

bool adopts(const api::CompileCache& cache) {
  return cache.spec.storage && cache.spec.storage->adopt;
}

// One name for each store; StoreRef::id() is shared by those of one volume or registry.
std::string name_of(const api::StoreRef& store) {
  if (const api::VolumeRef* volume = store.volume())
    return "claim " + volume->claim + ", " + volume->path;
  const api::RegistryRef* registry = store.registry();
  return registry->host + "/" + registry->repository;
}

}  // namespace

Sweeper::Sweeper(kube::Client client, const Settings& settings, SweepEnvironment environment,
                 const ClusterView& view, const SweepJobs& jobs, Metrics& metrics,
                 const Clock& clock, Random random)
    : client_(std::move(client)),
      settings_(settings),
      environment_(std::move(environment)),
      view_(view),
      jobs_(jobs),
      metrics_(metrics),
      clock_(clock),
      random_(std::move(random)) {}

void Sweeper::take_over(const api::CompileCache& cache) {
  const MutexLock lock(mutex_);
  State& state = states_[cache.metadata.key()];
  const auto* ready = api::find_condition(cache.status.conditions, api::kStorageReadyCondition);
  state.prepared = ready != nullptr && ready->status == "True";
  if (state.prepared) state.store = view_.store_of(cache);
  // The spec changed while there was no leader, so what was prepared may be another store. It is
  // swept again without pausing injection.
  state.asked = state.prepared && ready->observed_generation != cache.metadata.generation;
  state.last_report = time_of(cache.status.last_sweep.time);
  state.noted_job = cache.status.sweep_job;
  state.noted_none = state.noted_job.empty() && state.last_report.has_value();
  state.adopted = cache.status.adopted_store;
  // Releases before 0.3 did not note it.
  if (!state.asked) note_adopted(state, cache);
}

// A store that was prepared has our marker. If another owner's is found there later, somebody took
// the store from us: two CompileCaches with `adopt` would take it from each other forever.
void Sweeper::note_adopted(State& state, const api::CompileCache& cache) {
  if (!adopts(cache)) {
    state.adopted.clear();
  } else if (state.prepared && state.store) {
    state.adopted = name_of(*state.store);
  }
}

std::string Sweeper::adopted(const std::string& cache) const {
  const MutexLock lock(mutex_);
  const auto found = states_.find(cache);
  return found == states_.end() ? "" : found->second.adopted;
}

bool Sweeper::knows(const State& state, const std::string& job) {
  return !job.empty() && (job == state.job || job == state.last_job || job == state.noted_job);
}

bool Sweeper::created(const std::string& cache, const std::string& job) const {
  const MutexLock lock(mutex_);
  const auto found = states_.find(cache);
  return found != states_.end() && knows(found->second, job);
}

std::string Sweeper::newest_job(const std::string& cache) const {
  const MutexLock lock(mutex_);
  const auto found = states_.find(cache);
  return found == states_.end() ? "" : found->second.last_job;
}

// For any CompileCache of the namespace.
bool Sweeper::is_created(const std::string& ns, const std::string& job) const {
  const MutexLock lock(mutex_);
  const std::string prefix = ns + "/";
  for (auto each = states_.lower_bound(prefix);
       each != states_.end() && each->first.starts_with(prefix); ++each) {
    if (knows(each->second, job)) return true;
  }
  return false;
}

void Sweeper::forget(const std::string& cache) {
  const MutexLock lock(mutex_);
  states_.erase(cache);
  mails_.erase(cache);
}

void Sweeper::reported(const std::string& cache, const std::string& job,
                       const std::string& storage_error,
                       std::optional<api::RegistryTrouble> trouble) {
  const MutexLock lock(mutex_);
  mails_[cache].reports.push_back({.job = job,
                                   .storage_error = storage_error,
                                   .storage_trouble = trouble,
                                   .time = clock_.wall()});
}

void Sweeper::reported_failure(const std::string& cache, const std::string& job,
                               const std::string& why, bool again) {
  std::string failure = printable(first_bytes(why, kLongestWhy));
  if (failure.empty()) failure = "the Job did not say what failed";
  const MutexLock lock(mutex_);
  mails_[cache].reports.push_back(
      {.job = job, .time = clock_.wall(), .failure = std::move(failure), .again = again});
}

void Sweeper::ask(const std::string& cache) {
  const MutexLock lock(mutex_);
  mails_[cache].asked = true;
}

int64_t Sweeper::probe(const std::string& cache, const std::string& node) {
  const MutexLock lock(mutex_);
  Mail& mail = mails_[cache];
  mail.asked = true;
  mail.node = node;
  const auto state = states_.find(cache);
  return state == states_.end() ? 0 : state->second.started;
}

Sweeper::Probed Sweeper::probed(const std::string& cache, int64_t probe) const {
  const MutexLock lock(mutex_);
  const auto found = states_.find(cache);
  if (found == states_.end() || found->second.ended <= probe) return Probed::kPending;
  return found->second.good ? Probed::kSucceeded : Probed::kFailed;
}

void Sweeper::fill(const std::string& cache, StorageFacts& facts) const {
  const MutexLock lock(mutex_);
  auto found = states_.find(cache);
  if (found == states_.end()) return;
  facts.prepared = found->second.prepared;
  facts.storage_error = found->second.storage_error;
  facts.storage_trouble = found->second.storage_trouble;
  // A store that works stays open while a later Job has trouble.
  if (facts.prepared) {
    facts.sweep_trouble =
        found->second.failure.empty() ? found->second.trouble : found->second.failure;
  } else {
    facts.job_trouble = found->second.trouble;
  }
  facts.copy_trouble = found->second.copy_trouble;
}

Result<Duration> Sweeper::reconcile(const api::CompileCache& cache,
                                    const std::optional<ClaimView>& claim) {
  const std::string key = cache.metadata.key();
  State state;
  Mail mail;
  {
    const MutexLock lock(mutex_);
    state = states_[key];
    mail = std::exchange(mails_[key], {});
  }
  read(state, mail);
  auto again = decide(state, cache, claim);
  const MutexLock lock(mutex_);
  const auto found = states_.find(key);
  if (found != states_.end()) found->second = std::move(state);
  return again;
}

void Sweeper::end_job(State& state, bool good) {
  state.job.clear();
  state.ended = state.started;
  state.good = good;
}

void Sweeper::read(State& state, const Mail& mail) const {
  for (const Report& report : mail.reports) {
    const bool usable = report.storage_error.empty();
    const bool good = usable && !report.again;
    state.last_report = report.time;
    state.prepared = usable;
    state.failure = report.failure;
    state.asked |= report.again;
    state.storage_error = report.storage_error;
    state.storage_trouble = report.storage_trouble;
    state.trouble.clear();
    if (state.copies) state.copy_trouble.clear();
    state.failures = good ? 0 : state.failures + 1;
    // Another attempt starts with the first privileges again, with which it may succeed.
    if (!good) state.privilege.reset();
    // It has run, whether our store has seen it or not.
    if (state.job.empty()) state.last_job = report.job;
    if (report.job == state.job) end_job(state, good);
  }
  state.asked |= mail.asked;
  if (mail.node) state.node = *mail.node;
}

Result<Duration> Sweeper::decide(State& state, const api::CompileCache& cache,
                                 const std::optional<ClaimView>& claim) {
  notice_change_of_spec(state, cache);
  notice_change_of_store(state, cache, claim);
  notice_change_of_address(state);
  const auto jobs = jobs_of_store(state, cache);
  if (const SweepJob* mine = job_under_way(state, cache, jobs)) {
    if (is_astray(state, *mine)) {
      if (auto done = give_up_astray(state, *mine); !done) return unexpected(done.error());
      return Duration(seconds(1));
    }
    if (mine->state == SweepJob::State::kRunning) return watch_over(state, cache, *mine);
    account(state, cache, *mine);
    note_adopted(state, cache);
  }
  // No Job could report; a change of that calls us again.
  if (!state.agents.trouble.empty()) return Duration::zero();
  want_copy(state, cache);
  const bool running =
      !state.job.empty() || std::any_of(jobs.begin(), jobs.end(), [](const SweepJob& job) {
        return job.state == SweepJob::State::kRunning;
      });
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

// The Job that we wait for, as our store has it; one of a previous leader becomes this one's.
const SweepJob* Sweeper::job_under_way(State& state, const api::CompileCache& cache,
                                       const std::vector<SweepJob>& jobs) const {
  for (const SweepJob& job : jobs) {
    const bool running = job.state == SweepJob::State::kRunning;
    if (state.job.empty() && !running) continue;
    if (job.cache_uid != cache.metadata.uid || !knows(state, job.uid)) continue;
    if (state.job.empty() && job.uid != state.last_job) {
      state.job = state.last_job = job.uid;
      state.job_address.clear();
      state.job_since = clock_.monotonic();
    }
    if (job.uid != state.job) continue;
    state.job_seen = true;
    return &job;
  }
  if (state.job.empty()) return nullptr;
  // Somebody deleted it; or it has not reached our store yet, or was deleted before it did.
  if (state.job_seen || clock_.monotonic() - state.job_since > kJobPatience) {
    failed(state, cache, "a Job was deleted before it ended");
  }
  return nullptr;
}

// It may fix the cause of failed Jobs, so the next one does not wait for their back-off.
void Sweeper::notice_change_of_spec(State& state, const api::CompileCache& cache) {
  const int64_t before = std::exchange(state.generation, cache.metadata.generation);
  if (before == 0 || before == cache.metadata.generation) return;
  state.failures = 0;
  state.repeats = 0;
}

void Sweeper::notice_change_of_store(State& state, const api::CompileCache& cache,
                                     const std::optional<ClaimView>& claim) {
  const auto store = view_.store_of(cache);
  const std::string uid = claim ? claim->uid : "";
  const bool other_claim = !state.claim.empty() && state.claim != uid;
  if (other_claim || (state.store && state.store != store)) {
    state.prepared = false;
    state.storage_error.clear();
    state.storage_trouble.reset();
    state.trouble.clear();
    state.failure.clear();
    state.failures = 0;
    state.last_start.reset();
    state.privilege.reset();
    state.adopted.clear();
  }
  state.claim = uid;
  state.store = store;
  note_adopted(state, cache);
}

// Jobs that failed because they could not reach us say nothing of the next one.
void Sweeper::notice_change_of_address(State& state) const {
  const AgentService now = view_.agent_service();
  const AgentService before = std::exchange(state.agents, now);
  if (before == AgentService() || before == now || !now.trouble.empty()) return;
  state.failures = 0;
  state.last_start.reset();
}

// Whether we gave it an address that no longer leads to us, so that it cannot report.
bool Sweeper::is_astray(const State& state, const SweepJob& job) {
  return job.state != SweepJob::State::kSucceeded && !state.job_address.empty() &&
         state.job_address != state.agents.address;
}

Status Sweeper::give_up_astray(State& state, const SweepJob& job) const {
  log_info("a sweep Job has an old address of the operator; starting another",
           {{"job", job.ns + "/" + job.name}, {"address", state.job_address}});
  if (job.state == SweepJob::State::kRunning) {
    if (auto removed = remove_job(job); !removed) return removed;
  }
  state.job.clear();
  state.job_address.clear();
  state.asked = true;
  state.trouble.clear();
  state.failure.clear();
  return {};
}

// Those that we created, of its namespace alone: authors of Jobs can write all else that we
// read of them. Until a Job is noted after a release that noted none, those of that release count,
// too.
std::vector<SweepJob> Sweeper::jobs_of_store(const State& state,
                                             const api::CompileCache& cache) const {
  std::vector<SweepJob> found;
  const auto store = view_.store_of(cache);
  if (!store) return found;
  for (const auto& job : jobs_.by_store.list(store->id())) {
    if (job->deleting || job->ns != cache.metadata.ns) continue;
    const bool ours = state.noted_none || knows(state, job->uid) || is_created(job->ns, job->uid);
    if (ours) found.push_back(*job);
  }
  return found;
}

void Sweeper::failed(State& state, const api::CompileCache& cache,
                     const std::string& trouble) const {
  metrics_.sweep(cache.metadata.ns, cache.metadata.name, api::SweepOutcome::kFailed);
  ++state.failures;
  state.asked = true;  // what it was for is still to be done
  state.trouble = state.failure = trouble;
  if (state.copies) state.copy_trouble = trouble;
  end_job(state, false);
  log_warn("a sweep failed", {{"cache", cache.metadata.key()}, {"why", trouble}});
}

// The Job is over without a report to us. If it succeeded it has reported to the previous leader.
void Sweeper::account(State& state, const api::CompileCache& cache, const SweepJob& job) const {
  if (job.state == SweepJob::State::kSucceeded) {
    state.last_report = clock_.wall();
    state.prepared = true;
    state.storage_error.clear();
    state.storage_trouble.reset();
    state.trouble.clear();
    state.failure.clear();
    state.failures = 0;
    return end_job(state, true);
  }
  failed(
      state, cache,
      "Job \"" + job.name + "\" ended without a report" +
          (job.failure.empty() ? "" : " (" + job.failure + ")") + "; see kubectl logs job/" +
          job.name +
          ". Where a NetworkPolicy keeps it from the operator, docs/run/network-policy.md has what "
          "is needed");
}

Result<Duration> Sweeper::watch_over(State& state, const api::CompileCache& cache,
                                     const SweepJob& job) {
  const auto age = clock_.monotonic() - state.job_since;
  if (job.active == 0 && age >= kPodPatience) {
    auto refusal = read_refusal(client_, job);
    if (!refusal) {  // no reason to keep the status from being written
      log_warn("a Job has no pod, and why cannot be read", {{"error", refusal.error().message}});
      refusal = "";
    }
    if (is_about_privileges(*refusal) && job.privilege + 1 < sweep_privileges().size()) {
      if (auto done = step_down(state, job); !done) return unexpected(done.error());
      return Duration(seconds(1));
    }
    state.trouble = "no pod of Job \"" + job.name + "\" appears" +
                    (refusal->empty() ? "" : " (" + *refusal + ")") +
                    "; see kubectl describe job " + job.name;
  } else if (age >= kJobPatience) {
    state.trouble.clear();
    for (const auto& pod : pods_of(cache, job)) {
      if (pod->ended()) continue;
      if (const std::string why = pod_trouble(*pod); !why.empty()) {
        state.trouble = "Job \"" + job.name + "\": " + why;
      }
    }
  }
  if (state.copies && age >= kCopyPatience && !has_begun(cache, job)) {
    if (auto done = copy_no_more(state, cache, job); !done) return unexpected(done.error());
    return Duration(seconds(1));
  }
  if (state.copies) state.copy_trouble = state.trouble;
  return Duration(kRecheck);
}

// Its own alone: the label may be on any pod.
std::vector<std::shared_ptr<const PodView>> Sweeper::pods_of(const api::CompileCache& cache,
                                                             const SweepJob& job) const {
  auto pods = view_.sweep_pods_of(job.ns, cache.metadata.name);
  std::erase_if(
      pods, [&](const auto& pod) { return pod->owner == nullptr || pod->owner->uid != job.uid; });
  return pods;
}

bool Sweeper::has_begun(const api::CompileCache& cache, const SweepJob& job) const {
  const auto pods = pods_of(cache, job);
  return std::any_of(pods.begin(), pods.end(),
                     [](const auto& pod) { return pod->phase == "Running"; });
}

Status Sweeper::copy_no_more(State& state, const api::CompileCache& cache, const SweepJob& job) {
  const std::string why =
      state.trouble.empty() ? "its pod does not start: see kubectl get events -n " + job.ns +
                                  ". Where the claim that is copied from cannot be mounted, fix it"
                            : state.trouble;
  if (auto removed = remove_job(job); !removed) return removed;
  failed(state, cache,
         "Job \"" + job.name + "\" was given up, so that the store is swept: " + why +
             ". A later sweep tries to copy again");
  return {};
}

Status Sweeper::remove_job(const SweepJob& job) const {
  auto removed = client_.remove(kube::resources::kJobs, job.ns, job.name,
                                {.uid = job.uid, .propagation = "Background"});
  if (!removed && removed.error().code != ErrorCode::kNotFound) {
    return unexpected(removed.error().with("deleting the sweep Job " + job.ns + "/" + job.name));
  }
  return {};
}

Status Sweeper::step_down(State& state, const SweepJob& job) {
  state.privilege = job.privilege + 1;
  state.last_start.reset();  // at once
  state.asked = true;
  state.job.clear();
  log_info(
      "no pod of a sweep is let through, trying with less",
      {{"job", job.ns + "/" + job.name}, {"next", sweep_privileges()[job.privilege + 1].name}});
  return remove_job(job);
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

// The store comes first, and after a failed Job one that copies nothing. The source of a copy may
// keep a Job from starting. It must keep no store from being swept, nor a probe from
// succeeding.
bool Sweeper::may_copy(const State& state, const api::CompileCache& cache) {
  const std::string from = api::copy_source_in_words(cache);
  return state.prepared && state.failures == 0 && state.node.empty() && !from.empty() &&
         !api::copies_from_itself(cache) && !cache.status.last_copy.done(from);
}

// At once, and again at once as long as each attempt gets further or the keys are others;
// otherwise it goes along with sweeps that are due anyway.
void Sweeper::want_copy(State& state, const api::CompileCache& cache) {
  if (!may_copy(state, cache)) return;
  const std::string from = api::copy_source_in_words(cache);
  const api::LastCopy& last = cache.status.last_copy;
  std::string copy = from + ", " + std::to_string(last.from == from ? last.archives : 0) + ", " +
                     join(cache.spec.trust.public_keys, ", ");
  if (state.copy == copy) return;
  state.copy = std::move(copy);
  state.asked = true;
}

Status Sweeper::start(State& state, const api::CompileCache& cache,
                      const std::optional<ClaimView>& claim) {
  if (!state.store) return {};
  if (auto chosen = choose_privilege(state, cache.metadata.ns); !chosen) return chosen;
  SweepJobInput input{
      .name = sweep_job_name(cache.metadata.name, random_id(random_)),
      .store = *state.store,
      .copy_from = may_copy(state, cache) ? view_.copy_source_of(cache) : std::nullopt,
      .image = environment_.image,
      .cluster_uid = environment_.cluster_uid,
      .privilege = *state.privilege,
      .node = claim && is_single_node(*claim) ? node_of(cache) : state.node,
      .agent_address = state.agents.address,
      .agent_name = environment_.agent_name,
      .agent_ca = environment_.agent_ca(),
      .agent_port = environment_.agent_port,
      .proxy = environment_.proxy,
      .adopted = state.adopted == name_of(*state.store)};
  state.copies = input.copy_from.has_value();
  if (state.copies) state.copy_trouble.clear();
  auto created = client_.create(kube::resources::kJobs, sweep_job(cache, input, settings_));
  state.last_start = clock_.wall();
  ++state.started;
  if (!created) {
    // The Job's policy, a quota or a namespace that is ending: people can see it and act.
    failed(state, cache, "creating a Job: " + created.error().message);
    const ErrorCode code = created.error().code;
    if (code == ErrorCode::kForbidden || code == ErrorCode::kInvalid) return {};
    return unexpected(created.error().with("creating a sweep Job for " + cache.metadata.key()));
  }
  state.job = state.last_job = kube::string_at(*created, {"metadata", "uid"});
  state.noted_none = false;
  state.job_since = clock_.monotonic();
  state.job_seen = false;
  state.job_address = state.agents.address;
  state.asked = false;
  state.node.clear();
  return {};
}

// A successful admission holds for one level of Pod Security.
Status Sweeper::choose_privilege(State& state, const std::string& ns) const {
  auto found = client_.get(kube::resources::kNamespaces, "", ns, {.metadata_only = true});
  if (!found) return unexpected(found.error().with("reading the Pod Security level of " + ns));
  const json labels = found->value("metadata", json::object()).value("labels", json::object());
  const std::string level = labels.value("pod-security.kubernetes.io/enforce", "");
  if (!state.privilege || state.level != level) {
    state.privilege = first_privilege(*state.store, level);
  }
  state.level = level;
  return {};
}

// Where a claim for one node is in use; empty when it is nowhere.
std::string Sweeper::node_of(const api::CompileCache& cache) const {
  for (const auto& pod : view_.active_pods(cache.metadata.ns, cache.metadata.name)) {
    if (!pod->node.empty() && pod->phase == "Running") return pod->node;
  }
  return {};
}

}  // namespace compilecache::controller
