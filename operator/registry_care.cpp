#include "operator/registry_care.hpp"

#include <algorithm>
#include <utility>

#include "api/names.hpp"
#include "base/log.hpp"
#include "base/time_format.hpp"

namespace compilecache::controller {
namespace {

constexpr std::chrono::seconds kLookAtRegistry{30};
// A registry that is restarted, or busy, is not yet one that nobody looks after.
constexpr std::chrono::hours kUnchecked{1};

bool is_unchecked(const RegistryCondition& is, Duration interval) {
  return is.now - is.health.audited.value_or(is.since) > kUnchecked + 2 * interval;
}

bool is_damaged(const RegistryHealth& health, const std::string& repository) {
  return std::find(health.damaged.begin(), health.damaged.end(), repository) !=
         health.damaged.end();
}

}  // namespace

OwnRegistryTrouble registry_trouble(const RegistryCondition& is, const std::string& repository,
                                    const Settings::Registry& settings, const std::string& ns) {
  const std::string pod = "kubectl logs -n " + ns + " deploy/" + api::kRegistryService;
  if (is.full_since) {
    return {kRegistryFull,
            "the installation's registry has had no room since " + format_time(*is.full_since) +
                ": nothing can be saved there, and pods go on loading. Its garbage is collected; "
                "where that is not enough, give the claim " +
                api::kRegistryService + " in " + ns +
                " more room, or lower registry.namespaceShare in the operator's settings"};
  }
  if (is_damaged(is.health, repository)) {
    return {kRegistryDamaged,
            "some of what the installation's registry keeps in " + repository +
                " cannot be read; the archives that need it are saved again when pods find that. "
                "The next collection sets it aside; see " +
                pod + " -c collect, and the disk below it"};
  }
  if (is.health.collection && !is.health.collection->collected) {
    return {kRegistryNotCollected,
            "the garbage of the installation's registry could not be collected, so that its volume "
            "fills: see " +
                pod + " -c collect"};
  }
  if (is_unchecked(is, settings.check_interval)) {
    return {kRegistryNotChecked,
            "the operator cannot look into the installation's registry: " +
                (is.health.trouble.empty() ? std::string("no check has ended yet")
                                           : is.health.trouble)};
  }
  return {};
}

std::vector<RegistryGauge> registry_gauges(const RegistryCondition& is) {
  const RegistryHealth& health = is.health;
  const auto number = [](uint64_t value) { return static_cast<double>(value); };
  std::vector<RegistryGauge> gauges{
      {"registry_full", "1 where the installation's registry has no room for what agents push",
       is.full_since ? 1.0 : 0.0}};
  if (health.collection) {
    gauges.push_back({"registry_collected",
                      "0 where the last collection of the installation's registry failed",
                      health.collection->collected ? 1.0 : 0.0});
    gauges.push_back({"registry_set_aside",
                      "Links and manifests that the last collection could not read and set aside",
                      number(health.collection->set_aside)});
  }
  if (!health.audited) return gauges;
  gauges.push_back({"registry_checked_timestamp_seconds",
                    "When the operator last looked at all that is in the installation's registry",
                    std::chrono::duration<double>(health.audited->time_since_epoch()).count()});
  gauges.push_back({"registry_bytes", "Bytes in the installation's registry that tags reach",
                    number(health.bytes)});
  gauges.push_back({"registry_repositories", "Repositories in the installation's registry",
                    number(health.repositories)});
  gauges.push_back({"registry_unneeded_repositories",
                    "Repositories there of deleted CompileCaches, to be emptied",
                    number(health.unneeded)});
  gauges.push_back({"registry_unreadable", "Tags there whose manifest cannot be read",
                    number(health.unreadable)});
  return gauges;
}

RegistryCare::RegistryCare(RegistryCareParts parts, const Clock& clock)
    : parts_(std::move(parts)),
      clock_(clock),
      since_(clock.wall()),
      repositories_({.place = [this] { return parts_.view.own_registry(); },
                     .authorities = parts_.authorities,
                     .minter = parts_.minter}),
      collector_(parts_.keeper,
                 RollRules{parts_.settings.collect_above, parts_.settings.collect_interval,
                           parts_.settings.quiet_for, parts_.settings.collect_within},
                 clock),
      audit_({.repositories = repositories_,
              .view = parts_.view,
              .client = parts_.client,
              .usage = usage_,
              .ns = parts_.ns,
              .keep_deleted = parts_.settings.keep_deleted,
              .deleted = [this](uint64_t bytes) { collector_.deleted(clock_.wall(), bytes); },
              .stopped = [this] { return stop_.cancelled() || !parts_.is_leader(); }},
             clock) {}

RegistryCare::~RegistryCare() { stop(); }

void RegistryCare::start() {
  thread_ = std::thread([this] { run(); });
}

void RegistryCare::stop() {
  stop_.cancel();
  if (thread_.joinable()) thread_.join();
}

void RegistryCare::room(bool full) {
  const bool was_full = collector_.full_since().has_value();
  if (full) {
    collector_.found_full();
  } else {
    collector_.found_room();
  }
  if (full != was_full && parts_.changed) parts_.changed();
}

void RegistryCare::run() {
  std::optional<Monotonic> audited;
  while (!stop_.wait_for(kLookAtRegistry)) {
    if (!parts_.is_leader()) continue;
    const Monotonic now = clock_.monotonic();
    if (!audited || now - *audited >= parts_.settings.check_interval) {
      audited = now;
      audit();
    }
    RegistryActivity activity = parts_.activity();
    activity.leftovers = audit_.health().leftovers;
    if (auto looked = collector_.look(activity); !looked) {
      log_warn("collecting the registry's garbage", {{"error", looked.error().message}});
    }
  }
}

void RegistryCare::audit() {
  const RegistryHealth before = audit_.health();
  if (auto done = audit_.round(); !done && done.error().code != ErrorCode::kCancelled) {
    log_warn("looking at what is in the registry", {{"error", done.error().message}});
  }
  const RegistryHealth now = audit_.health();
  const bool collected_before = !before.collection || before.collection->collected;
  const bool collected = !now.collection || now.collection->collected;
  const bool changed = before.damaged != now.damaged || collected_before != collected ||
                       before.trouble.empty() != now.trouble.empty();
  if (changed && parts_.changed) parts_.changed();
}

RegistryCondition RegistryCare::condition() const {
  return {audit_.health(), collector_.full_since(), since_, clock_.wall()};
}

OwnRegistryTrouble RegistryCare::trouble(const std::string& repository) const {
  return registry_trouble(condition(), repository, parts_.settings, parts_.ns);
}

std::vector<RegistryGauge> RegistryCare::gauges() const { return registry_gauges(condition()); }

}  // namespace compilecache::controller
