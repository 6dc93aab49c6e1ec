#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/compile_cache_archive.hpp"
#include "api/outcomes.hpp"
#include "tests/simulation/cluster/api_server.hpp"
#include "tests/simulation/os/scheduler.hpp"
#include "tests/simulation/registry/simulated_registry.hpp"

// What must hold whatever happens: a sentence each. An invariant looks when
// something happened and says what violates it.
//
//   for (auto& invariant : all_invariants(world)) invariant->archive_written(archive);

namespace compilecache::simulation {

// The shortest spec.retention.unusedFor that tenants set.
constexpr int64_t kShortestRetention = kDay;

// What invariants may see of the world.
struct WorldView {
  ApiServer& api;
  SimulatedRegistry& registry;
  // When CompileCaches were deleted that were not created again since: "namespace/name" to
  // nanoseconds of the run.
  std::map<std::string, int64_t> deleted = {};
  std::string hostile = {};  // a namespace whose own objects are not judged
  // Until when something is or was wrong, by a fault; invariants that hold in calm times alone give
  // the installation some more time to recover.
  int64_t trouble_until = 0;
  int places = 0;                                          // limits.maxConcurrentLoads
  std::vector<std::pair<int64_t, int64_t>> troubles = {};  // from and until, of each fault
  [[nodiscard]] bool is_calm(int64_t from, int64_t until) const {
    return std::none_of(troubles.begin(), troubles.end(), [&](const auto& trouble) {
      return trouble.first <= until && trouble.second >= from;
    });
  }
  [[nodiscard]] bool is_calm_since(int64_t at, int64_t recovery) const {
    return at >= trouble_until + recovery;
  }
};

// A pod whose user named a CompileCache.
struct CreatedPod {
  std::string pod;  // "namespace/name"
  std::string ns, cache;
  int64_t asked_ns = 0;  // when its user created it
  bool injected = false;
};

// A loader that has ended, by itself or killed with its pod.
struct EndedLoad {
  std::string pod;
  std::string ns, cache, image, product;
  int64_t began_ns = 0;
  int64_t took_ns = 0;
  int64_t budget_ns = 0;  // spec.load.timeout
  bool killed = false;    // a loader of this pod was
  std::string match, outcome, reason, message;
  [[nodiscard]] bool loaded() const {
    return match == "exact" && outcome == api::to_string(api::Outcome::kSuccess);
  }
  // Files in the cache directory whose bytes are not what was ever written under their path.
  std::vector<std::string> wrong_files;
};

// A replica of the operator has told a pod to load, and the pod has heard it.
struct AnsweredLoad {
  std::string pod;  // "namespace/name"
  std::string ns, cache, archive;
  std::string manifest_digest;
  int64_t began_ns = 0;  // when the pod asked
};

// A pod that has compiled and tried to save that.
struct EndedSave {
  std::string pod;
  std::string ns, cache;
  int64_t began_ns = 0;
  bool killed = false;
  bool saved = false;
};

class Invariant {
 public:
  // detail: which object, and what is wrong with it.
  using Violated = std::function<void(const std::string& sentence, const std::string& detail)>;

  explicit Invariant(std::string sentence) : sentence_(std::move(sentence)) {}
  virtual ~Invariant() = default;

  void report_to(Violated violated) { violated_ = std::move(violated); }
  [[nodiscard]] const std::string& sentence() const { return sentence_; }

  virtual void archive_written(const api::CompileCacheArchive& /*archive*/) {}
  // archive: as it was last written.
  virtual void archive_deleted(const api::CompileCacheArchive& /*archive*/) {}
  virtual void pod_created(const CreatedPod& /*pod*/) {}
  virtual void load_answered(const AnsweredLoad& /*answer*/) {}
  // pod: "namespace/name". Its loader runs no more, for whatever reason.
  virtual void loader_ended(const std::string& /*pod*/) {}
  virtual void load_ended(const EndedLoad& /*load*/) {}
  virtual void save_ended(const EndedSave& /*save*/) {}
  virtual void hour_passed() {}

 protected:
  // Once for each `subject`: a state that stays is one violation.
  void violated(const std::string& subject, const std::string& detail) {
    if (++subjects_[subject] == 1) violated_(sentence_, subject + ": " + detail);
  }

 private:
  const std::string sentence_;
  Violated violated_;
  std::map<std::string, int> subjects_;
};

std::unique_ptr<Invariant> loads_stay_within_their_budget();
std::unique_ptr<Invariant> no_wrong_byte_is_loaded();
std::unique_ptr<Invariant> pods_are_created_in_time();
std::unique_ptr<Invariant> calm_pods_are_injected(const WorldView& world);
std::unique_ptr<Invariant> calm_pods_load_what_was_saved(const WorldView& world);
std::unique_ptr<Invariant> calm_saves_succeed(const WorldView& world);
std::unique_ptr<Invariant> calm_caches_are_ready(const WorldView& world);
std::unique_ptr<Invariant> locks_are_released(const WorldView& world);
std::unique_ptr<Invariant> used_archives_are_kept(const WorldView& world);
std::unique_ptr<Invariant> requests_are_bounded(const WorldView& world);
std::unique_ptr<Invariant> generations_only_grow();
std::unique_ptr<Invariant> whole_archives_are_not_quarantined(const WorldView& world);
std::unique_ptr<Invariant> handed_out_heads_are_whole(const WorldView& world);
std::unique_ptr<Invariant> deleted_caches_keep_no_bytes(const WorldView& world);

std::unique_ptr<Invariant> quarantined_is_not_handed_out();
std::unique_ptr<Invariant> only_committed_heads_are_handed_out();
std::unique_ptr<Invariant> places_stay_within_bounds(const WorldView& world);

std::vector<std::unique_ptr<Invariant>> all_invariants(const WorldView& world);

}  // namespace compilecache::simulation
