#include "webhook/volumes.hpp"

#include "api/names.hpp"
#include "podspec/volumes.hpp"

namespace compilecache::webhook {

namespace {

// Whether the text, names separated by commas, has that name.
bool has_item(std::string_view names, std::string_view name) {
  for (size_t at = names.find(name); at != std::string_view::npos; at = names.find(name, at + 1)) {
    const bool begins = at == 0 || names[at - 1] == ',';
    const size_t end = at + name.size();
    if (begins && (end == names.size() || names[end] == ',')) return true;
  }
  return false;
}

}  // namespace

std::vector<podspec::Volume> pod_volumes(const DirectoryPlan& directories,
                                         const api::StoreRef& store) {
  std::vector<podspec::Volume> volumes;
  for (const std::string& name : directories.volumes) volumes.push_back(podspec::empty_dir(name));
  for (podspec::Volume& agents : podspec::agent_volumes(store))
    volumes.push_back(std::move(agents));
  return volumes;
}

std::vector<podspec::Mount> agent_mounts(const DirectoryPlan& directories, bool store_read_only) {
  std::vector<podspec::Mount> mounts = directories.mounts;
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
