#include <algorithm>

#include "api/conditions.hpp"
#include "base/time_format.hpp"
#include "tests/simulation/invariants/invariant.hpp"
#include "tests/simulation/os/scheduler.hpp"

// What holds while nothing fails, after the installation had time to recover by itself.

namespace compilecache::simulation {
namespace {

constexpr int64_t kRecovery = 20 * 60 * kSecond;
// Operators' clocks may be apart by less.
constexpr int64_t kClocksApart = 1000 * kSecond;

class LoadWhatWasSaved : public Invariant {
 public:
  explicit LoadWhatWasSaved(const WorldView& world)
      : Invariant("a pod loads the archive of its key, unless that is distrusted"), world_(world) {}
  void load_ended(const EndedLoad& load) override {
    if (load.loaded() || load.killed || !world_.is_calm_since(load.began_ns, kRecovery)) return;
    for (const auto& [key, object] : world_.api.objects.all(kArchives)) {
      const auto archive = api::parse_archive(object);
      if (!archive || !is_for(load, *archive)) continue;
      violated(load.pod, "archive " + key + " was not loaded: outcome " + load.outcome +
                             ", match " + load.match + ", reason " + load.reason + ": " +
                             load.message);
    }
  }

 private:
  static bool is_for(const EndedLoad& load, const api::CompileCacheArchive& archive) {
    const auto has = [&](const char* part, const std::string& value) {
      const auto found = archive.key.find(part);
      return found != archive.key.end() && found->second == value;
    };
    if (archive.metadata.ns != load.ns || archive.cache != load.cache) return false;
    if (!has(api::kImagePart, load.image) || !has(api::kGpuProductPart, load.product)) return false;
    const auto saved = parse_time(archive.head.saved_at);
    if (!archive.head.exists() || !archive.distrusted.empty() || !saved) return false;
    const int64_t saved_ns =
        std::chrono::nanoseconds(saved->time_since_epoch()).count() - (wall_ns() - now_ns());
    return saved_ns < load.began_ns - kClocksApart;
  }

  const WorldView& world_;
};

class SavesSucceed : public Invariant {
 public:
  explicit SavesSucceed(const WorldView& world)
      : Invariant("what a pod has compiled is saved"), world_(world) {}
  void save_ended(const EndedSave& save) override {
    if (save.saved || save.killed || !world_.is_calm_since(save.began_ns, kRecovery)) return;
    const auto caches = world_.api.objects.all(kCaches);
    if (caches.contains(save.ns + "/" + save.cache)) violated(save.pod, "three tries failed");
  }

 private:
  const WorldView& world_;
};

class CachesAreReady : public Invariant {
 public:
  explicit CachesAreReady(const WorldView& world)
      : Invariant("a CompileCache is Ready within an hour"), world_(world) {}
  void hour_passed() override {
    std::map<std::string, bool> present;
    for (const auto& [key, object] : world_.api.objects.all(kCaches)) {
      if (object["metadata"]["namespace"] == world_.hostile) continue;
      present[key] = true;
      if (!present_.contains(key) || !world_.is_calm_since(now_ns(), kHour)) continue;
      const auto cache = api::parse_compile_cache(object);
      if (cache && !api::is_true(cache->status.conditions, api::kReadyCondition)) {
        const auto* ready = api::find_condition(cache->status.conditions, api::kReadyCondition);
        violated(key, ready == nullptr ? "no condition" : ready->reason + ": " + ready->message);
      }
    }
    present_ = std::move(present);
  }

 private:
  const WorldView& world_;
  std::map<std::string, bool> present_;  // an hour ago
};

// The operator's own: leases of two replicas, watches that are renewed, EndpointSlices looked at.
constexpr uint64_t kIdleRequests = 2500;
constexpr uint64_t kRequestsOfObject = 400;

class RequestsAreBounded : public Invariant {
 public:
  explicit RequestsAreBounded(const WorldView& world)
      : Invariant("requests to the API server are bounded"), world_(world) {}
  void hour_passed() override {
    const uint64_t made = world_.api.requests - before_;
    before_ = world_.api.requests;
    most_ = std::max(most_, made);
    const auto& objects = world_.api.objects;
    const uint64_t of_users = objects.all(kCaches).size() + objects.all(kPods).size();
    if (made <= kIdleRequests + kRequestsOfObject * of_users) return;
    violated("hour " + std::to_string(now_ns() / kHour), std::to_string(made) + " requests for " +
                                                             std::to_string(of_users) +
                                                             " pods and CompileCaches");
  }

 private:
  const WorldView& world_;
  uint64_t before_ = 0, most_ = 0;
};

}  // namespace

std::unique_ptr<Invariant> calm_pods_load_what_was_saved(const WorldView& world) {
  return std::make_unique<LoadWhatWasSaved>(world);
}

std::unique_ptr<Invariant> calm_saves_succeed(const WorldView& world) {
  return std::make_unique<SavesSucceed>(world);
}

std::unique_ptr<Invariant> calm_caches_are_ready(const WorldView& world) {
  return std::make_unique<CachesAreReady>(world);
}

std::unique_ptr<Invariant> requests_are_bounded(const WorldView& world) {
  return std::make_unique<RequestsAreBounded>(world);
}

}  // namespace compilecache::simulation
