#include "operator/breaker/breaker_keeper.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/injected_place.hpp"
#include "api/names.hpp"
#include "api/reasons.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "kube/json.hpp"
#include "operator/breaker/replacement.hpp"
#include "operator/cluster/earliest_requeue.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::minutes;
using std::chrono::seconds;

// A loader's time beyond spec.load.timeout: asking the operator, waiting for the node's
// label, reporting (agent/load/load.cpp, agent/load/load_choice.cpp), on a node that is short of
// everything.
constexpr seconds kLoaderMargin{90};
// An Event is written again every two minutes or sooner while its cause lasts. One that we see
// for the first time counts for as long, since its age is unknown.
constexpr minutes kEventLife{5};
constexpr int kMostEvents = 500;
constexpr size_t kLongestEvent = 240;
constexpr size_t kMostOwners = 1000;
// Of a namespace's refusals: more Events than these harm nobody but the namespace.
constexpr size_t kMostRefusals = 256;
// Whether an owner's pods were injected is asked again after a pause that doubles, since our Event
// may come after the refusal. For all CompileCaches together, and for so many owners in one look.
constexpr seconds kFirstPause{2}, kLongestPause{60};
// Longer than an API server's restart. Then a refusal that may be about our containers counts as
// one: a pause that was not needed costs a cold start, and pods that are not admitted never start.
constexpr seconds kUnreadFor{60};
constexpr int kMostAsks = 8;
// For an owner's pods; each has the injected containers at one place.
constexpr size_t kMostPlaces = 32;
constexpr seconds kProbeLook{5};
// After an eviction that a PodDisruptionBudget or a missing right refuses.
constexpr seconds kAfterRefusal{60};

VolumeSight sight_of(const api::CompileCache& cache, const StorageFacts& storage) {
  VolumeSight sight;
  const bool mounts_a_claim = cache.spec.storage && !cache.spec.storage->claim_name.empty();
  if (mounts_a_claim) sight.claim = cache.spec.storage->claim_name;
  if (storage.claim) {
    sight.volume = storage.claim->volume_name;
    sight.bound = storage.claim->phase == "Bound";
  }
  sight.has_node_affinity = storage.volume && storage.volume->has_node_affinity;
  return sight;
}

const kube::Fields& event_fields() {
  static const kube::Fields kFields{"/involvedObject/uid", "/message"};
  return kFields;
}

kube::ObjectReference about(const api::CompileCache& cache) {
  return {api::kApiVersion, "CompileCache", cache.metadata.ns, cache.metadata.name,
          cache.metadata.uid};
}

}  // namespace

BreakerKeeper::BreakerKeeper(kube::Client client, const Settings& settings, const ClusterView& view,
                             PodLedger& pods, Sweeper& sweeper, kube::EventSink& events,
                             bool replace, const Clock& clock)
    : client_(std::move(client)),
      settings_(settings),
      view_(view),
      pods_(pods),
      sweeper_(sweeper),
      events_(events),
      replace_(replace),
      clock_(clock) {}

std::shared_ptr<BreakerKeeper::State> BreakerKeeper::state_of(const api::CompileCache& cache) {
  const MutexLock lock(mutex_);
  std::shared_ptr<State>& state = states_[cache.metadata.key()];
  if (state != nullptr) return state;
  state = std::make_shared<State>(State{.troubles = PodTroubles(settings_.breaker, pods_),
                                        .breaker = read_breaker(cache.status),
                                        .probed_generation = cache.metadata.generation});
  if (state->breaker.since) state->troubles.expect(cache.status.stuck_pods);
  return state;
}

void BreakerKeeper::forget(const std::string& cache) {
  const auto [ns, name] = kube::split_key(cache);
  for (const auto& pod : view_.pods_of(ns, name)) pods_.drop<TroubledPod>(pod->uid);
  const MutexLock lock(mutex_);
  states_.erase(cache);
}

BreakerSight BreakerKeeper::gather(const api::CompileCache& cache, const StorageFacts& storage) {
  const auto state = state_of(cache);
  const VolumeSight volume = sight_of(cache, storage);
  BreakerSight sight{
      .before = state->breaker,
      .input = {.seen = look_at_pods(*state, cache, volume), .nodes = view_.nodes()}};
  sight.again = read_events(*state, sight.input.seen, cache, volume);
  if (!sight.input.seen.waiting.empty()) sight.input.seen = look_at_pods(*state, cache, volume);
  sight.input.probe = probe_of(*state, cache.metadata.key());
  sight.input.spec_changed = state->probed_generation != cache.metadata.generation;
  Duration again(0);
  sight.input.refused = refused_pod(*state, cache, again);
  sight.again = earliest_requeue(sight.again, again);
  return sight;
}

Duration BreakerKeeper::act(const api::CompileCache& cache, const BreakerSight& sight,
                            const BreakerVerdict& verdict) {
  const auto state = state_of(cache);
  state->probed_generation = cache.metadata.generation;
  const Duration again = take_verdict(*state, verdict, cache.metadata.key());
  if (!replace_) return again;
  return earliest_requeue(again, replace_stuck(*state, sight.input.seen, cache));
}

// When to come again for the probe's sake; 0: none is due.
Duration BreakerKeeper::take_verdict(State& state, const BreakerVerdict& verdict,
                                     const std::string& cache) {
  const BreakerState before = std::exchange(state.breaker, verdict.state);
  if (before.open != verdict.state.open) {
    state.troubles.settle();
    state.turned = clock_.monotonic();
    log_warn(
        verdict.state.open ? "injection is paused" : "injection goes on",
        {{"cache", cache}, {"reason", verdict.state.reason}, {"message", verdict.state.message}});
  }
  if (!verdict.state.open || verdict.state.failed_probes != before.failed_probes) {
    state.probe.reset();
  }
  if (!verdict.probe) return Duration(0);
  if (state.probe) return kProbeLook;
  const std::string node = view_.node(verdict.state.node) ? verdict.state.node : "";
  state.probe = sweeper_.probe(cache, node);
  log_info("probing whether pods can start again", {{"cache", cache}, {"node", node}});
  return seconds(1);
}

StuckPods BreakerKeeper::look_at_pods(State& state, const api::CompileCache& cache,
                                      const VolumeSight& volume) {
  const SignRules rules{.patience = settings_.breaker.patience,
                        .load_budget = cache.spec.load.timeout + kLoaderMargin};
  const auto pods = view_.pods_of(cache.metadata.ns, cache.metadata.name);
  std::vector<PodLook> looks;
  looks.reserve(pods.size());
  for (const auto& pod : pods) {
    if (!pod->deleting) looks.push_back({pod.get(), read_sign(*pod, volume, rules)});
  }
  return state.troubles.evaluate(looks, state.failed_mounts, clock_.wall());
}

Duration BreakerKeeper::read_events(State& state, const StuckPods& seen,
                                    const api::CompileCache& cache, const VolumeSight& volume) {
  if (seen.waiting.empty()) {
    state.failed_mounts.clear();
    return Duration(0);
  }
  const Monotonic now = clock_.monotonic();
  if (state.events_read && now - *state.events_read < seen.read_events) {
    return *state.events_read + seen.read_events - now;
  }
  state.events_read = now;
  std::map<std::string, std::string> found;
  for (const char* reason : {"FailedMount", "FailedAttachVolume"}) {
    auto read = read_failed_mounts(state, seen, cache, volume, reason);
    if (!read) {  // what was known stays
      log_warn("reading why pods wait for their volumes",
               {{"cache", cache.metadata.key()}, {"error", read.error().message}});
      return seen.read_events;
    }
    found.merge(*read);
  }
  state.mount_events.end_round();
  state.failed_mounts = std::move(found);
  return seen.read_events;
}

// The refusals in the namespace that may be about our containers, since a refused pod does not
// name its CompileCache. Refusals before we watched are old, and so are those while the breaker was
// open; a controller tries again, and reports it again.
std::vector<BreakerKeeper::Candidate> BreakerKeeper::fresh_refusals(
    State& state, const api::CompileCache& cache) {
  std::vector<Candidate> fresh;
  const Monotonic now = clock_.monotonic();
  size_t seen = 0;
  for (const auto& refusal : view_.refusals(cache.metadata.ns)) {
    if (!refusal->places.may_be_ours()) continue;
    if (++seen > kMostRefusals) break;
    const auto& sight = state.refusal_events.see(refusal->event, refusal->version, now);
    if (state.breaker.open || !sight.is_news || now - sight.since >= kEventLife) continue;
    if (state.turned && sight.since <= *state.turned) continue;
    const auto owner = known_owner(*refusal);
    fresh.push_back({refusal, sight.since, owner ? owner->asked : Monotonic::min()});
  }
  state.refusal_events.end_round();
  return fresh;
}

// The latest. Owners that were not asked for yet, or not for longest, come first: owners of
// other pods do not delay them.
std::optional<RefusedPod> BreakerKeeper::refused_pod(State& state, const api::CompileCache& cache,
                                                     Duration& again) {
  std::vector<Candidate> fresh = fresh_refusals(state, cache);
  std::stable_sort(fresh.begin(), fresh.end(),
                   [](const auto& a, const auto& b) { return a.asked < b.asked; });
  const Candidate* latest = nullptr;
  int asks = kMostAsks;
  for (const Candidate& one : fresh) {
    if (latest != nullptr && one.since <= latest->since) continue;
    if (is_ours(*one.refusal, asks, again)) latest = &one;
  }
  if (latest == nullptr) return std::nullopt;
  const Refusal& refusal = *latest->refusal;
  return RefusedPod{refusal.kind + " " + refusal.name + ": " + refusal.message};
}

bool BreakerKeeper::is_ours(const Refusal& refusal, int& asks, Duration& again) {
  const RefusedPlaces& places = refusal.places;
  if (places.name_ours) return true;
  const auto meant = [&](const std::set<size_t>& first) {
    return std::any_of(first.begin(), first.end(), [&](size_t i) { return places.are_among(i); });
  };
  const Monotonic now = clock_.monotonic();
  const auto known = known_owner(refusal);
  if (known && meant(known->first)) return true;
  const Duration left = known ? known->asked + known->pause - now : Duration(0);
  if (left > Duration(0) || --asks < 0) {
    again = earliest_requeue(again, std::max<Duration>(left, seconds(1)));
    return false;
  }
  InjectedOwner owner{.asked = now, .pause = kFirstPause};
  if (known) owner.pause = std::min<Duration>(2 * known->pause, kLongestPause);
  if (auto first = first_places(refusal)) {
    owner.first = std::move(*first);
  } else {
    log_warn("reading whether pods that are not admitted were injected",
             {{"owner", refusal.ns + "/" + refusal.name}, {"error", first.error().message}});
    if (known) owner.first = known->first;
    owner.unread = known && known->unread ? *known->unread : now;
  }
  const bool in_doubt = owner.unread && now - *owner.unread >= kUnreadFor;
  const bool ours = in_doubt || meant(owner.first);
  if (!ours) again = earliest_requeue(again, owner.pause);
  remember_owner(refusal, std::move(owner));
  return ours;
}

std::optional<BreakerKeeper::InjectedOwner> BreakerKeeper::known_owner(const Refusal& refusal) {
  const MutexLock lock(mutex_);
  const auto found = owners_.find(kube::object_key(refusal.ns, refusal.uid));
  if (found == owners_.end() || clock_.monotonic() - found->second.asked >= kEventLife) {
    return std::nullopt;
  }
  return found->second;
}

void BreakerKeeper::remember_owner(const Refusal& refusal, InjectedOwner owner) {
  const MutexLock lock(mutex_);
  if (owners_.size() >= kMostOwners) {
    const Monotonic now = clock_.monotonic();
    std::erase_if(owners_, [&](const auto& one) { return now - one.second.asked >= kEventLife; });
    if (owners_.size() >= kMostOwners) owners_.clear();
  }
  owners_[kube::object_key(refusal.ns, refusal.uid)] = std::move(owner);
}

// The place of the injected containers in the owner's pods: the webhook says so in its Events about
// the same owner. Empty: they were not injected.
Result<std::set<size_t>> BreakerKeeper::first_places(const Refusal& refusal) const {
  const std::string reason(api::text_of(api::InjectionReason::kInjected).event);
  std::set<size_t> first;
  const auto read = [&](const json& event) {
    if (first.size() == kMostPlaces) return;
    const auto told = api::init_containers_named_in(kube::string_at(event, {"message"}));
    first.insert(told.empty() ? 0 : *told.begin());
  };
  auto listed =
      client_.list(kube::resources::kEvents,
                   {.ns = refusal.ns,
                    .field_selector = "involvedObject.uid=" + refusal.uid + ",reason=" + reason,
                    .limit = kMostEvents},
                   event_fields(), {[&] { first.clear(); }, read});
  if (!listed) return unexpected(listed.error());
  return first;
}

// Read, not watched: a cluster's Events are many, and these matter only while a pod waits.
Result<std::map<std::string, std::string>> BreakerKeeper::read_failed_mounts(
    State& state, const StuckPods& seen, const api::CompileCache& cache, const VolumeSight& volume,
    const char* reason) const {
  std::map<std::string, std::shared_ptr<const PodView>> waiting;
  for (const auto& pod : view_.pods_of(cache.metadata.ns, cache.metadata.name)) {
    if (seen.waiting.contains(pod->uid)) waiting.emplace(pod->uid, pod);
  }
  const Monotonic now = clock_.monotonic();
  std::map<std::string, std::string> found;
  auto listed = client_.list(
      kube::resources::kEvents,
      {.ns = cache.metadata.ns,
       .field_selector = std::string("involvedObject.kind=Pod,reason=") + reason,
       .limit = kMostEvents},
      event_fields(),
      {[&] { found.clear(); },
       [&](json event) {
         const auto pod = waiting.find(kube::string_at(event, {"involvedObject", "uid"}));
         const std::string message = kube::string_at(event, {"message"});
         const auto& sight =
             state.mount_events.see(kube::string_at(event, {"metadata", "name"}),
                                    kube::string_at(event, {"metadata", "resourceVersion"}), now);
         if (pod == waiting.end() || now - sight.since >= kEventLife) return;
         if (!is_about_our_volume(message, *pod->second, volume)) return;
         found[pod->first] =
             std::string(reason) + ": " + std::string(first_bytes(message, kLongestEvent));
       }});
  if (!listed) return unexpected(listed.error());
  return found;
}

Probe BreakerKeeper::probe_of(const State& state, const std::string& cache) const {
  if (!state.breaker.open || !state.probe) return Probe::kNone;
  switch (sweeper_.probed(cache, *state.probe)) {
    case Sweeper::Probed::kSucceeded:
      return Probe::kSucceeded;
    case Sweeper::Probed::kFailed:
      return Probe::kFailed;
    case Sweeper::Probed::kPending:
      break;
  }
  return Probe::kRuns;
}

// Never faster than the settings say, whatever the number of CompileCaches. Only when the webhooks
// know it from the status, so that the replacements start without us.
Duration BreakerKeeper::replace_stuck(State& state, const StuckPods& seen,
                                      const api::CompileCache& cache) {
  const BreakerState written = read_breaker(cache.status);
  if (!state.breaker.open) {
    state.replaced.clear();
    state.written_open.reset();
    return Duration(0);
  }
  if (!written.open || !written.since) return Duration(0);
  if (!state.written_open) state.written_open = clock_.monotonic();
  Replacement next;
  {
    const MutexLock lock(mutex_);
    const Monotonic now = clock_.monotonic();
    next = choose_replacement(seen,
                              {.open = state.breaker.open,
                               .written_open = state.written_open,
                               .replaced = state.replaced,
                               .replaced_last = replaced_last_,
                               .now = now},
                              settings_.breaker);
    if (next.pod == nullptr) return next.again;
    replaced_last_ = now;
  }
  if (replace(cache, *next.pod)) {
    state.replaced.insert(next.pod->uid);
    return next.again;
  }
  const MutexLock lock(mutex_);
  replaced_last_ = clock_.monotonic() + kAfterRefusal;
  return kAfterRefusal + settings_.breaker.replace_interval;
}

// False: to be tried again.
bool BreakerKeeper::replace(const api::CompileCache& cache, const StuckPod& pod) {
  const std::string& ns = cache.metadata.ns;
  const json eviction = {{"apiVersion", "policy/v1"},
                         {"kind", "Eviction"},
                         {"metadata", {{"name", pod.name}, {"namespace", ns}}},
                         {"deleteOptions", {{"preconditions", {{"uid", pod.uid}}}}}};
  // One try: a PodDisruptionBudget that says no is respected.
  auto evicted =
      client_.with_timeout(seconds(10), 0)
          .raw("POST", kube::resources::kPods.path(ns, pod.name, "eviction"), eviction.dump());
  if (!evicted) {
    const ErrorCode code = evicted.error().code;
    // It was deleted, or another has its name now.
    if (code == ErrorCode::kNotFound || code == ErrorCode::kConflict) return true;
    log_warn("replacing a stuck pod",
             {{"pod", ns + "/" + pod.name}, {"error", evicted.error().message}});
    return false;
  }
  log_info("replaced a stuck pod", {{"pod", ns + "/" + pod.name}});
  events_.normal(
      about(cache), "StuckPodReplaced",
      "pod " + pod.name + " could not start and was evicted, to come back without the cache");
  return true;
}

}  // namespace compilecache::controller
