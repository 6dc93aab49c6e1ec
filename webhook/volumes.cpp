#include "webhook/volumes.hpp"

#include "api/names.hpp"
#include "base/json_writer.hpp"

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

// Whether the text, names separated by commas, has that name.
bool has_item(std::string_view names, std::string_view name) {
  for (size_t at = names.find(name); at != std::string_view::npos; at = names.find(name, at + 1)) {
    const bool begins = at == 0 || names[at - 1] == ',';
    const size_t end = at + name.size();
    if (begins && (end == names.size() || names[end] == ',')) return true;
  }
  return false;
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
  const std::string_view present = annotation(pod, kSafeToEvictAnnotation).value_or("");
  std::string names(present);
  for (const std::string& name : directories.volumes) {
    if (has_item(present, name)) continue;
    if (!names.empty()) names += ',';
    names += name;
  }
  return names;
}

}  // namespace compilecache::webhook
