#include "api/conditions.hpp"
#include "tests/simulation/invariants/invariant.hpp"
#include "tests/simulation/os/scheduler.hpp"

// What holds of each pod when it is created.

namespace compilecache::simulation {
namespace {

// The timeout of the webhook's configuration, and the API server's own work.
constexpr int64_t kLongestCreation = 3'500 * kMillisecond;
// Both replicas run again, and have seen what changed.
constexpr int64_t kReplicasAreBack = 20 * 60 * kSecond;

class InTime : public Invariant {
 public:
  InTime() : Invariant("a pod is created within the webhook's timeout") {}
  void pod_created(const CreatedPod& pod) override {
    const int64_t took = now_ns() - pod.asked_ns;
    if (took > kLongestCreation) violated(pod.pod, std::to_string(took / kMillisecond) + " ms");
  }
};

class Injected : public Invariant {
 public:
  explicit Injected(const WorldView& world)
      : Invariant("a pod that names a CompileCache which is Ready is injected"), world_(world) {}
  void pod_created(const CreatedPod& pod) override {
    if (pod.injected || !world_.is_calm_since(pod.asked_ns, kReplicasAreBack)) return;
    const auto caches = world_.api.objects.all(kCaches);
    const auto found = caches.find(pod.ns + "/" + pod.cache);
    if (found == caches.end()) return;
    const auto cache = api::parse_compile_cache(found->second);
    if (cache && api::is_true(cache->status.conditions, api::kReadyCondition)) {
      violated(pod.pod, "CompileCache " + pod.cache + " is Ready");
    }
  }

 private:
  const WorldView& world_;
};

}  // namespace

std::unique_ptr<Invariant> pods_are_created_in_time() { return std::make_unique<InTime>(); }

std::unique_ptr<Invariant> calm_pods_are_injected(const WorldView& world) {
  return std::make_unique<Injected>(world);
}

}  // namespace compilecache::simulation
