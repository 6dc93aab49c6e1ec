#include "operator/archives/sweep_guard.hpp"

#include <algorithm>

namespace compilecache::controller {

void SweepGuard::take_over(const std::string& cache, const std::vector<std::string>& listed) {
  const MutexLock lock(mutex_);
  entries_[cache].handed.insert(listed.begin(), listed.end());
}

// The blobs of the Job's list are deleted or not; saves that are over do not care.
void SweepGuard::close(Entry& entry, const std::vector<SaveInFlight>& saves) {
  std::erase_if(entry.misled, [&](const auto& item) {
    return std::find(saves.begin(), saves.end(), item.first) == saves.end();
  });
  if (entry.handed.empty()) return;
  for (const SaveInFlight& save : saves) {
    entry.misled[save].insert(entry.handed.begin(), entry.handed.end());
  }
  entry.handed.clear();
}

void SweepGuard::begins(const std::string& cache, const std::vector<std::string>& deletable,
                        const std::vector<SaveInFlight>& saves) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[cache];
  close(entry, saves);
  entry.handed.insert(deletable.begin(), deletable.end());
}

std::set<std::string> SweepGuard::handed(const std::string& cache) const {
  const MutexLock lock(mutex_);
  const auto entry = entries_.find(cache);
  return entry == entries_.end() ? std::set<std::string>() : entry->second.handed;
}

std::set<std::string> SweepGuard::ends(const std::string& cache,
                                       const std::vector<SaveInFlight>& saves) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[cache];
  std::set<std::string> handed = entry.handed;
  close(entry, saves);
  return handed;
}

bool SweepGuard::refuses(const std::string& cache, const SaveInFlight& save,
                         const std::string& digest) const {
  const MutexLock lock(mutex_);
  const auto entry = entries_.find(cache);
  if (entry == entries_.end()) return false;
  if (entry->second.handed.contains(digest)) return true;
  const auto misled = entry->second.misled.find(save);
  return misled != entry->second.misled.end() && misled->second.contains(digest);
}

}  // namespace compilecache::controller
