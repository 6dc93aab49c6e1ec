#include "cli/archives/copy_wait.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/printable.hpp"
#include "cli/archives/copy_plan.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

constexpr std::chrono::seconds kLook{1};

Result<nlohmann::json> set_copy_from(const Cluster& cluster, const std::string& name,
                                     const nlohmann::json& value) {
  return cluster.client.patch(controller::resources::kCompileCaches, cluster.ns, name,
                              kube::PatchType::kMerge,
                              {{"spec", {{"storage", {{"copyFrom", value}}}}}});
}

}  // namespace

Result<nlohmann::json> ask_for_copy(const Cluster& cluster, const std::string& name,
                                    const nlohmann::json& copy_from) {
  // In two steps, as a merge would leave fields of the copy before.
  auto patched = set_copy_from(cluster, name, nullptr);
  if (patched) patched = set_copy_from(cluster, name, copy_from);
  if (!patched) {
    return unexpected(patched.error().with("setting spec.storage.copyFrom of CompileCache " +
                                           cluster.ns + "/" + name));
  }
  return patched;
}

void take_back_copy(const Cluster& cluster, const std::string& name) {
  (void)set_copy_from(cluster, name, nullptr);
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
    const std::string now = ready != nullptr && ready->status == "False"
                                ? "its store is not ready yet: " + ready->message
                                : state.message;
    if (!now.empty() && now != told) progress << printable(now) << "\n" << std::flush;
    told = now;
    (void)cluster.client.pause(kLook);
  }
  return fail(ErrorCode::kTimeout, "not copied within " + std::to_string(limit.count()) + " s");
}

Error still_copying(const Error& error, const Cluster& cluster, const std::string& name) {
  if (error.code != ErrorCode::kTimeout) return error;
  return {error.code, error.message + "; the operator goes on: kubectl wait cc " + name + " -n " +
                          cluster.ns + " --for=condition=ArchivesCopied"};
}

}  // namespace compilecache::cli
