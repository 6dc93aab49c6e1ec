#include "webhook/volumes.hpp"

#include <algorithm>

#include "api/names.hpp"
#include "base/json_writer.hpp"
#include "base/strings.hpp"

namespace compilecache::webhook {

namespace {

// The kubelet renews it at 80 % of its life.
constexpr int kTokenSeconds = 3600;

// A volume whose source is the object that `write` writes.
template <typename Write>
Volume volume(const std::string& name, const char* source, const Write& write) {
  JsonWriter out;
  out.begin_object();
  out.field("name", name);
  out.key(source);
  out.begin_object();
  write(out);
  out.end_object();
  out.end_object();
  return {name, out.text()};
}

Volume empty_dir(const std::string& name) {
  return volume(name, "emptyDir", [](JsonWriter&) {});
}

Volume claim_volume(const std::string& claim_name) {
  return volume(api::kStoreVolume, "persistentVolumeClaim",
                [&](JsonWriter& out) { out.field("claimName", claim_name); });
}

Volume token_volume() {
  return volume(api::kTokenVolume, "projected", [](JsonWriter& out) {
    out.key("sources");
    out.begin_array();
    out.begin_object();
    out.key("serviceAccountToken");
    out.begin_object();
    out.field("audience", api::kTokenAudience);
    out.field("expirationSeconds", kTokenSeconds);
    out.field("path", "token");
    out.end_object();
    out.end_object();
    out.end_array();
  });
}

}  // namespace

std::vector<Volume> agent_volumes(const std::string& claim_name) {
  return {claim_volume(claim_name), token_volume()};
}

std::vector<Volume> pod_volumes(const DirectoryPlan& directories, const std::string& claim_name) {
  std::vector<Volume> volumes;
  for (const std::string& name : directories.volumes) volumes.push_back(empty_dir(name));
  for (Volume& agents : agent_volumes(claim_name)) volumes.push_back(std::move(agents));
  return volumes;
}

std::vector<Mount> agent_mounts(const DirectoryPlan& directories, bool store_read_only) {
  std::vector<Mount> mounts = directories.mounts;
  mounts.insert(mounts.end(), directories.agent_mounts.begin(), directories.agent_mounts.end());
  mounts.push_back({api::kStoreVolume, api::kStorePath, store_read_only});
  mounts.push_back({api::kTokenVolume, api::kTokenPath, true});
  return mounts;
}

std::string safe_to_evict_volumes(const Json& pod, const DirectoryPlan& directories) {
  const auto present = annotation(pod, kSafeToEvictAnnotation);
  if (!present) return {};
  std::vector<std::string> names = split(*present, ',');
  for (const std::string& name : directories.volumes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return join(names, ",");
}

}  // namespace compilecache::webhook
