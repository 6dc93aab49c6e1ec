#include "cli/archives/copy_wait.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/duration.hpp"
#include "base/hex.hpp"
#include "base/printable.hpp"
#include "base/random.hpp"
#include "cli/archives/copy_plan.hpp"
#include "cli/cluster/plain_error.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

constexpr std::chrono::seconds kLook{1};

using nlohmann::json;

constexpr size_t kIdDigits = 8;
constexpr int kMostConflicts = 5;

json copy_from_of(const json& object) {
  const auto found = json::json_pointer("/spec/storage/copyFrom");
  return object.contains(found) ? object.at(found) : json();
}

// The merge patch that makes `wanted` of `present`: a merge leaves what it does not name.
json patch_to(const json& present, const json& wanted) {
  if (!present.is_object() || !wanted.is_object()) return wanted;
  json patch = wanted;
  for (const auto& [name, value] : present.items()) {
    patch[name] = wanted.contains(name) ? patch_to(value, wanted.at(name)) : json();
  }
  return patch;
}

// Replaces the copyFrom of that state of the object. kConflict: it has changed.
Result<json> set_copy_from(const Cluster& cluster, const json& object, const json& wanted) {
  const api::ObjectMeta meta = api::object_meta(object);
  const json change = {
      {"metadata", {{"resourceVersion", meta.resource_version}}},
      {"spec", {{"storage", {{"copyFrom", patch_to(copy_from_of(object), wanted)}}}}}};
  return cluster.client.patch(controller::resources::kCompileCaches, cluster.ns, meta.name,
                              kube::PatchType::kMerge, change);
}

// The object as it is then. `choose` is given the present copyFrom, and says which is to be there;
// nothing: it stays.
template <typename Choose>
Result<json> change_copy_from(const Cluster& cluster, const std::string& name, Choose choose) {
  for (int conflicts = 0;; ++conflicts) {
    auto object = cluster.client.get(controller::resources::kCompileCaches, cluster.ns, name);
    if (object) {
      const std::optional<json> wanted = choose(copy_from_of(*object));
      if (wanted) object = set_copy_from(cluster, *object, *wanted);
    }
    if (object) return object;
    if (object.error().code == ErrorCode::kConflict && conflicts < kMostConflicts) continue;
    return unexpected(not_read(object.error(), "CompileCache", cluster.ns, name));
  }
}

// Whether the store of that state of the object stays unusable until somebody changes something.
bool is_stalled_by(const api::Condition* storage, const api::CompileCache& cache,
                   int64_t generation) {
  const auto* stalled = api::find_condition(cache.status.conditions, api::kStalledCondition);
  return storage != nullptr && storage->status == "False" && stalled != nullptr &&
         stalled->status == "True" && stalled->reason == storage->reason &&
         stalled->observed_generation >= generation;
}

std::string cache_of(const json& copy_from) {
  return copy_from.is_object() ? copy_from.value("cache", "") : "";
}

}  // namespace

Result<json> ask_for_copy(const Cluster& cluster, const std::string& name, const json& copy_from) {
  return change_copy_from(cluster, name, [&](const json&) { return std::optional(copy_from); });
}

Result<json> BorrowedCopyFrom::ask(const json& copy_from) {
  return change_copy_from(cluster_, name_, [&](const json& present) {
    const MutexLock lock(mutex_);
    // Leftovers of an earlier import are not the user's.
    if (!before_) before_ = is_inbox_name(cache_of(present)) ? json() : present;
    return std::optional(copy_from);
  });
}

bool BorrowedCopyFrom::was_set() const {
  const MutexLock lock(mutex_);
  return before_ && !before_->is_null();
}

void BorrowedCopyFrom::give_back() const {
  std::optional<json> before;
  {
    const MutexLock lock(mutex_);
    before = before_;
  }
  if (!before) return;
  (void)change_copy_from(cluster_, name_, [&](const json& present) {
    return cache_of(present) == inbox_ ? before : std::nullopt;
  });
}

std::string inbox_name(const std::string& cache) {
  const std::string prefix = cache.empty() ? "" : cache.substr(0, 40) + "-";
  return prefix + "import-" + random_id(system_random()).substr(0, kIdDigits);
}

bool is_inbox_name(const std::string& name) {
  constexpr std::string_view kImport = "import-";
  if (name.size() < kImport.size() + kIdDigits) return false;
  const size_t id = name.size() - kIdDigits, word = id - kImport.size();
  return is_hex(std::string_view(name).substr(id), kIdDigits) &&
         name.compare(word, kImport.size(), kImport) == 0 && (word == 0 || name[word - 1] == '-');
}

Result<std::string> wait_for_copy(const Cluster& cluster, const std::string& name,
                                  int64_t generation, std::chrono::seconds limit,
                                  std::ostream& progress) {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::string told;
  while (std::chrono::steady_clock::now() < until) {
    const auto cache = read_cache(cluster, name);
    if (!cache) return unexpected(cache.error());
    const CopyState state = copy_state(*cache, generation);
    if (state.kind == CopyState::Kind::kDone) return state.message;
    if (state.kind == CopyState::Kind::kFailed) return fail(ErrorCode::kUnavailable, state.message);
    const auto* ready = api::find_condition(cache->status.conditions, api::kStorageReadyCondition);
    if (is_stalled_by(ready, *cache, generation)) {
      return fail(ErrorCode::kInvalid, "its store cannot be used: " + ready->message);
    }
    const std::string now = ready != nullptr && ready->status == "False"
                                ? "its store is not ready yet: " + ready->message
                                : state.message;
    if (!now.empty() && now != told) progress << printable(now) << "\n" << std::flush;
    told = now;
    (void)cluster.client.pause(kLook);
  }
  return fail(ErrorCode::kTimeout, "not copied within " + format_duration(limit));
}

Error still_copying(const Error& error, const Cluster& cluster, const std::string& name) {
  if (error.code != ErrorCode::kTimeout) return error;
  return {error.code, error.message + "; the operator goes on: kubectl wait cc " + name + " -n " +
                          cluster.ns + " --for=condition=ArchivesCopied"};
}

}  // namespace compilecache::cli
