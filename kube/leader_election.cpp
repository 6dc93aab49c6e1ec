#include "kube/leader_election.hpp"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "kube/json.hpp"

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;

int integer_at(const Json& spec, const char* name) {
  auto found = spec.find(name);
  return found != spec.end() && found->is_number_integer() ? found->get<int>() : 0;
}

lease::Record read_record(const Json& object) {
  lease::Record record;
  record.resource_version = string_at(object, {"metadata", "resourceVersion"});
  record.holder = string_at(object, {"spec", "holderIdentity"});
  record.acquire_time = string_at(object, {"spec", "acquireTime"});
  record.renew_time = string_at(object, {"spec", "renewTime"});
  auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object()) return record;
  record.duration_seconds = integer_at(*spec, "leaseDurationSeconds");
  record.transitions = integer_at(*spec, "leaseTransitions");
  return record;
}

void write_record(const lease::Record& record, Json& object) {
  Json& spec = object["spec"];
  spec["holderIdentity"] = record.holder;
  spec["leaseDurationSeconds"] = record.duration_seconds;
  spec["leaseTransitions"] = record.transitions;
  spec["acquireTime"] = record.acquire_time;
  spec["renewTime"] = record.renew_time;
}

// One hung request must not cost the lease. Source: controller-runtime.
std::chrono::milliseconds request_timeout(const lease::Config& config) {
  const std::chrono::milliseconds half = std::chrono::milliseconds(config.renew_deadline) / 2;
  return std::max<std::chrono::milliseconds>(half, std::chrono::seconds(1));
}

}  // namespace

struct LeaderElector::Impl {
  Impl(const Client& c, LeaderElectionOptions o, LeaderCallbacks b, const Clock& k, Random r)
      : client(c.with_timeout(request_timeout(o.lease), 0).with_cancel(cancel)),
        releasing_client(c.with_timeout(request_timeout(o.lease), 0)),
        options(std::move(o)),
        callbacks(std::move(b)),
        clock(k),
        random(std::move(r)) {}

  const Cancellation cancel;
  const Client client;
  const Client releasing_client;  // works after stop()
  const LeaderElectionOptions options;
  const LeaderCallbacks callbacks;
  const Clock& clock;
  const Random random;
  std::thread thread;

  mutable Mutex mutex;  // what it guards is written by the thread
  bool leading GUARDED_BY(mutex) = false;
  Monotonic renewed GUARDED_BY(mutex){};  // when the last successful write was begun
  int transitions GUARDED_BY(mutex) = 0;
  std::string leader GUARDED_BY(mutex);

  // Only the election's thread uses these.
  lease::Observation seen;
  Json object;  // the Lease as last seen

  void run();
  bool acquire();
  void hold();
  bool attempt();
  bool look();
  bool write(lease::Decision decision);
  void took(Json answer, Monotonic began);
  [[nodiscard]] Client bounded() const;
  void tell_leader(const std::string& identity);
  void set_leading(bool value);
  [[nodiscard]] bool surely_leading() const;
  void release();
};

void LeaderElector::Impl::run() {
  if (!acquire()) return;
  log_info("leading", {{"lease", options.name}, {"identity", options.lease.identity}});
  if (callbacks.on_started) callbacks.on_started();
  hold();
  if (cancel.cancelled()) return;
  set_leading(false);
  log_error("leadership lost", {{"lease", options.name}, {"identity", options.lease.identity}});
  if (callbacks.on_lost) callbacks.on_lost();
}

// Tries until we lead; returns false when stopped.
bool LeaderElector::Impl::acquire() {
  while (!cancel.cancelled()) {
    if (attempt()) return true;
    const Duration wait =
        lease::next_look(seen, options.lease, clock.monotonic(), random_fraction(random));
    if (cancel.wait_for(wait)) break;
  }
  return false;
}

// Renews the lease until we do not lead any more or are stopped.
void LeaderElector::Impl::hold() {
  while (!cancel.wait_for(options.lease.retry_period)) {
    if (!surely_leading()) return;
    attempt();
    const bool taken = seen.record && seen.record->holder != options.lease.identity;
    if (taken || !surely_leading()) return;
  }
}

// One try to get or keep the lease; true when this replica has it and it is fresh.
bool LeaderElector::Impl::attempt() {
  // While we lead, the Lease is as we left it, unless the write shows otherwise.
  if (surely_leading() && write(lease::Decision::kRenew)) return true;
  if (!look()) return false;
  const lease::Decision decision = lease::decide(seen, options.lease, clock.monotonic());
  if (seen.record) tell_leader(seen.record->holder);
  return decision != lease::Decision::kWait && write(decision);
}

// While we lead, a request ends when the lease must be given up, so that on_lost is not late.
Client LeaderElector::Impl::bounded() const {
  const MutexLock lock(mutex);
  if (!leading) return client;
  const Duration left = renewed + options.lease.renew_deadline - clock.monotonic();
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left);
  const auto timeout = std::clamp(rounded, std::chrono::milliseconds(1), client.options().timeout);
  return client.with_timeout(timeout, 0);
}

bool LeaderElector::Impl::look() {
  Result<Json> got = bounded().get(resources::kLeases, options.ns, options.name);
  if (!got && got.error().code != ErrorCode::kNotFound) {
    log_warn("looking at the lease failed", {{"error", got.error().message}});
    return false;
  }
  std::optional<lease::Record> record;
  if (got) {
    record = read_record(*got);
    object = std::move(*got);
  }
  seen = lease::observe(std::move(seen), std::move(record), clock.monotonic());
  return true;
}

bool LeaderElector::Impl::write(lease::Decision decision) {
  const Monotonic began = clock.monotonic();
  const lease::Record next = lease::next_record(seen, options.lease, clock.wall());
  const bool create = decision == lease::Decision::kCreate;
  if (create) {
    object = {{"apiVersion", resources::kLeases.api_version()},
              {"kind", "Lease"},
              {"metadata", {{"namespace", options.ns}, {"name", options.name}}}};
  }
  Json wanted = object;
  write_record(next, wanted);
  const Client now = bounded();
  Result<Json> answer =
      create ? now.create(resources::kLeases, wanted) : now.update(resources::kLeases, wanted);
  if (!answer) {
    const bool lost_race = answer.error().code == ErrorCode::kConflict ||
                           answer.error().code == ErrorCode::kAlreadyExists;
    if (!lost_race) log_warn("writing the lease failed", {{"error", answer.error().message}});
    return false;
  }
  took(std::move(*answer), began);
  return true;
}

void LeaderElector::Impl::took(Json answer, Monotonic began) {
  object = std::move(answer);
  seen = lease::observe(std::move(seen), read_record(object), clock.monotonic());
  {
    const MutexLock lock(mutex);
    leading = true;
    renewed = began;
    transitions = seen.record->transitions;
  }
  tell_leader(options.lease.identity);
}

void LeaderElector::Impl::tell_leader(const std::string& identity) {
  {
    const MutexLock lock(mutex);
    if (leader == identity) return;
    leader = identity;
  }
  if (!identity.empty() && callbacks.on_new_leader) callbacks.on_new_leader(identity);
}

void LeaderElector::Impl::set_leading(bool value) {
  const MutexLock lock(mutex);
  leading = value;
}

bool LeaderElector::Impl::surely_leading() const {
  const MutexLock lock(mutex);
  return leading && !lease::lost(renewed, options.lease, clock.monotonic());
}

void LeaderElector::Impl::release() {
  if (!surely_leading() || !seen.record) return;
  set_leading(false);
  Json wanted = object;
  write_record(lease::released_record(*seen.record, clock.wall()), wanted);
  Result<Json> answer = releasing_client.update(resources::kLeases, wanted);
  if (!answer) {
    log_warn("releasing the lease failed; another takes over when it has expired",
             {{"error", answer.error().message}});
  }
}

LeaderElector::LeaderElector(const Client& client, LeaderElectionOptions options,
                             LeaderCallbacks callbacks, const Clock& clock, Random random)
    : impl_(std::make_unique<Impl>(client, std::move(options), std::move(callbacks), clock,
                                   std::move(random))) {}

LeaderElector::~LeaderElector() {
  impl_->cancel.cancel();
  if (impl_->thread.joinable()) impl_->thread.join();
}

Status LeaderElector::start() {
  if (auto valid = lease::validate(impl_->options.lease); !valid) return valid;
  impl_->thread = std::thread([this] { impl_->run(); });
  return {};
}

void LeaderElector::stop() {
  impl_->cancel.cancel();
  if (!impl_->thread.joinable()) return;
  impl_->thread.join();
  impl_->release();
}

bool LeaderElector::is_leader() const { return impl_->surely_leading(); }

int LeaderElector::transitions() const {
  const MutexLock lock(impl_->mutex);
  return impl_->transitions;
}

std::string LeaderElector::leader() const {
  const MutexLock lock(impl_->mutex);
  return impl_->leader;
}

}  // namespace compilecache::kube
