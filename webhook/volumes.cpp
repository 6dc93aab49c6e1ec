#include "webhook/volumes.hpp"

#include <algorithm>
#include <vector>

#include "api/names.hpp"
#include "base/strings.hpp"
#include "webhook/pod_json.hpp"

namespace compilecache::webhook {

namespace {

// The kubelet renews it at 80 % of its life.
constexpr int kTokenSeconds = 3600;

json token_volume() {
  const json source = {{"serviceAccountToken",
                        {{"audience", api::kTokenAudience},
                         {"expirationSeconds", kTokenSeconds},
                         {"path", "token"}}}};
  return {{"name", api::kTokenVolume}, {"projected", {{"sources", json::array({source})}}}};
}

}  // namespace

json agent_volumes(const std::string& claim_name) {
  const json claim = {{"name", api::kStoreVolume},
                      {"persistentVolumeClaim", {{"claimName", claim_name}}}};
  return json::array({claim, token_volume()});
}

json pod_volumes(const DirectoryPlan& directories, const std::string& claim_name) {
  json volumes = directories.volumes;
  for (json& volume : agent_volumes(claim_name)) volumes.push_back(std::move(volume));
  return volumes;
}

json agent_mounts(const DirectoryPlan& directories, bool store_read_only) {
  json mounts = directories.mounts;
  for (const json& mount : directories.agent_mounts) mounts.push_back(mount);
  json store = {{"name", api::kStoreVolume}, {"mountPath", api::kStorePath}};
  if (store_read_only) store["readOnly"] = true;
  mounts.push_back(std::move(store));
  mounts.push_back(
      {{"name", api::kTokenVolume}, {"mountPath", api::kTokenPath}, {"readOnly", true}});
  return mounts;
}

std::string safe_to_evict_volumes(const json& pod, const DirectoryPlan& directories) {
  const auto present = annotation(pod, kSafeToEvictAnnotation);
  if (!present) return {};
  std::vector<std::string> names = split(*present, ',');
  for (const json& volume : directories.volumes) {
    const std::string name = text_member(volume, "name");
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return join(names, ",");
}

}  // namespace compilecache::webhook
