#include "tests/simulation/invariants/invariant.hpp"
#include "tests/simulation/os/scheduler.hpp"

// What nobody needs is gone.

namespace compilecache::simulation {
namespace {

constexpr int64_t kBound = 8 * kDay;
constexpr uint64_t kMarkers = 4096;  // of an owner's marker and the like

class DeletedKeepNoBytes : public Invariant {
 public:
  explicit DeletedKeepNoBytes(const WorldView& world)
      : Invariant("a CompileCache that was deleted 8 days ago keeps no bytes in the registry"),
        world_(world) {}
  void hour_passed() override {
    for (const auto& [repository, since] : world_.deleted) {
      if (now_ns() - since < kBound) continue;
      const uint64_t bytes = world_.registry.kept_bytes(repository);
      if (bytes > kMarkers) violated(repository, std::to_string(bytes) + " bytes");
    }
  }

 private:
  const WorldView& world_;
};

}  // namespace

std::unique_ptr<Invariant> deleted_caches_keep_no_bytes(const WorldView& world) {
  return std::make_unique<DeletedKeepNoBytes>(world);
}

std::vector<std::unique_ptr<Invariant>> all_invariants(const WorldView& world) {
  std::vector<std::unique_ptr<Invariant>> all;
  all.push_back(loads_stay_within_their_budget());
  all.push_back(no_wrong_byte_is_loaded());
  all.push_back(pods_are_created_in_time());
  all.push_back(calm_pods_are_injected(world));
  all.push_back(generations_only_grow());
  all.push_back(whole_archives_are_not_quarantined(world));
  all.push_back(handed_out_heads_are_whole(world));
  all.push_back(deleted_caches_keep_no_bytes(world));
  all.push_back(used_archives_are_kept(world));
  all.push_back(locks_are_released(world));
  all.push_back(calm_pods_load_what_was_saved(world));
  all.push_back(calm_saves_succeed(world));
  all.push_back(calm_caches_are_ready(world));
  all.push_back(requests_are_bounded(world));
  all.push_back(quarantined_is_not_handed_out());
  all.push_back(only_committed_heads_are_handed_out());
  all.push_back(places_stay_within_bounds(world));
  return all;
}

}  // namespace compilecache::simulation
