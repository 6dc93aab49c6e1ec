#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

// The leader's facts about each injected pod, by uid, in one map. So there is one place where a pod
// ends, and one that bounds the facts. Each concern has a section of its own, a struct that is
// declared beside the rules that judge it. These are the counts of the status (CacheStats), the
// pod's start and end (CrashWatch), its troubles (PodTroubles) and its last save
// (EffectService).
//
//   PodLedger ledger;
//   ledger.edit<StartedPod>("uid-1", [&](StartedPod& pod) { pod.manifest = manifest; });
//   if (const auto pod = ledger.find<StartedPod>("uid-1")) ...
//   ledger.on_end([&](const std::string& ns, const std::string& uid) { ...
//   ledger.end("ml", "uid-1");      // it was deleted: nothing is known of it any more
//
// A pod may be reported before the watch has shown it, and after its deletion. At `most` pods the
// one that nobody has written about for longest is forgotten. It is then as unknown as after a
// change of leader, and no callback runs.
//
// Thread-safe. Its lock is the innermost: others call with a lock of their own held. The functions
// given to edit() and drop_if() run under it, take no lock, and do not call it.

namespace compilecache::controller {

class PodLedger {
 public:
  // Far more than a cluster has.
  static constexpr size_t kMostPods = 100'000;
  using EndHandler = std::function<void(const std::string& ns, const std::string& uid)>;

  explicit PodLedger(size_t most = kMostPods);

  // Called without our lock when a pod ends, in the thread that says so. Before other threads come.
  void on_end(EndHandler handler);

  // Changes that section of the pod's, which is made where there is none, and returns what `change`
  // does.
  template <typename Section, typename Change>
  auto edit(const std::string& uid, Change change) {
    const MutexLock lock(mutex_);
    std::any& section = record(uid).sections[std::type_index(typeid(Section))];
    if (!section.has_value()) section = Section{};
    return change(*std::any_cast<Section>(&section));
  }
  // The same where there is one; false: there is none.
  template <typename Section, typename Change>
  bool edit_known(const std::string& uid, Change change) {
    const MutexLock lock(mutex_);
    Section* section = section_of<Section>(records_, uid);
    if (section == nullptr) return false;
    touch(records_.find(uid)->second);
    change(*section);
    return true;
  }
  template <typename Section>
  [[nodiscard]] std::optional<Section> find(const std::string& uid) const {
    const MutexLock lock(mutex_);
    const Section* section = section_of<Section>(records_, uid);
    return section == nullptr ? std::nullopt : std::optional<Section>(*section);
  }
  template <typename Section>
  void drop(const std::string& uid) {
    const MutexLock lock(mutex_);
    if (const auto found = records_.find(uid); found != records_.end()) {
      drop(found, std::type_index(typeid(Section)));
    }
  }
  // Looks at all pods.
  template <typename Section, typename Condition>
  void drop_if(Condition condition) {
    const MutexLock lock(mutex_);
    for (auto next = records_.begin(); next != records_.end();) {
      const auto at = next++;
      const Section* section = section_of<Section>(records_, at->first);
      if (section != nullptr && condition(*section)) drop(at, std::type_index(typeid(Section)));
    }
  }

  // The one place where a pod ends: all sections go, then the handlers are called.
  void end(const std::string& ns, const std::string& uid);
  [[nodiscard]] size_t size() const;

 private:
  using Order = std::list<std::string>;  // uids, the one that was written about last at the end
  struct Record {
    std::map<std::type_index, std::any> sections;
    Order::iterator place;
  };
  using Records = std::unordered_map<std::string, Record>;

  Record& record(const std::string& uid) REQUIRES(mutex_);
  void touch(Record& record) REQUIRES(mutex_);
  void erase(Records::iterator record) REQUIRES(mutex_);
  void drop(Records::iterator record, std::type_index section) REQUIRES(mutex_);
  // The section in `records`, which are const or not; nullptr: there is none.
  template <typename Section, typename Map>
  static auto* section_of(Map& records, const std::string& uid) {
    const auto found = records.find(uid);
    if (found == records.end())
      return decltype(std::any_cast<Section>(&found->second.sections.begin()->second)){};
    const auto section = found->second.sections.find(std::type_index(typeid(Section)));
    if (section == found->second.sections.end())
      return decltype(std::any_cast<Section>(&section->second)){};
    return std::any_cast<Section>(&section->second);
  }

  const size_t most_;
  std::vector<EndHandler> handlers_;
  mutable Mutex mutex_;
  Records records_ GUARDED_BY(mutex_);  // by uid
  Order order_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
