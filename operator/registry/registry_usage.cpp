#include "operator/registry/registry_usage.hpp"

namespace compilecache::controller {

void RegistryUsage::found(const std::string& repository, uint64_t bytes) {
  const MutexLock lock(mutex_);
  repositories_[repository] = {.found = bytes};
}

void RegistryUsage::committed(const std::string& repository, uint64_t bytes) {
  const MutexLock lock(mutex_);
  repositories_[repository].committed += bytes;
}

void RegistryUsage::audited(const std::vector<std::string>& repositories) {
  const std::set<std::string> there(repositories.begin(), repositories.end());
  const MutexLock lock(mutex_);
  audited_ = true;
  // One that came after the list was read has nothing but what was committed.
  std::erase_if(repositories_, [&](const auto& item) {
    return item.second.committed == 0 && !there.contains(item.first);
  });
}

std::optional<uint64_t> RegistryUsage::of_namespace(const std::string& ns) const {
  const std::string prefix = ns + "/";
  const MutexLock lock(mutex_);
  if (!audited_) return std::nullopt;
  uint64_t bytes = 0;
  for (auto item = repositories_.lower_bound(prefix);
       item != repositories_.end() && item->first.starts_with(prefix); ++item) {
    bytes += item->second.found + item->second.committed;
  }
  return bytes;
}

uint64_t RegistryUsage::total() const {
  const MutexLock lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [name, one] : repositories_) bytes += one.found + one.committed;
  return bytes;
}

}  // namespace compilecache::controller
