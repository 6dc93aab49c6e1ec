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

std::vector<std::string> our_empty_dirs(const DirectoryPlan& directories, const OwnFolders& own) {
  std::vector<std::string> names = directories.volumes;
  if (own.spool) names.emplace_back(api::kSpoolVolume);
  if (own.state) names.emplace_back(api::kStateVolume);
  return names;
}

std::vector<podspec::Volume> pod_volumes(const std::vector<std::string>& empty_dirs,
                                         const api::StoreRef& store) {
  std::vector<podspec::Volume> volumes;
  volumes.reserve(empty_dirs.size());
  for (const std::string& name : empty_dirs) volumes.push_back(podspec::empty_dir(name));
  for (podspec::Volume& agents : podspec::agent_volumes(store, podspec::SecretKeys::kNeeded))
    volumes.push_back(std::move(agents));
  return volumes;
}

std::vector<podspec::Mount> agent_mounts(const DirectoryPlan& directories,
                                         const api::StoreRef& store, bool store_read_only,
                                         const OwnFolders& own) {
  std::vector<podspec::Mount> mounts = directories.mounts;
  mounts.insert(mounts.end(), directories.agent_mounts.begin(), directories.agent_mounts.end());
  for (podspec::Mount& mount : podspec::agent_mounts(store, store_read_only))
    mounts.push_back(std::move(mount));
  if (own.spool) mounts.push_back({api::kSpoolVolume, api::kSpoolPath});
  if (own.state) mounts.push_back({api::kStateVolume, api::kStatePath});
  return mounts;
}

std::string safe_to_evict_volumes(const Json& pod, const std::vector<std::string>& empty_dirs) {
  const std::string_view present = annotation(pod, kSafeToEvictAnnotation).value_or("");
  std::string names(present);
  for (const std::string& name : empty_dirs) {
    if (has_item(present, name)) continue;
    if (!names.empty()) names += ',';
    names += name;
  }
  return names;
}

}  // namespace compilecache::webhook
