#include "operator/pods/pod_ledger.hpp"

#include <algorithm>

namespace compilecache::controller {

PodLedger::PodLedger(size_t most) : most_(std::max<size_t>(1, most)) {}

void PodLedger::on_end(EndHandler handler) { handlers_.push_back(std::move(handler)); }

PodLedger::Record& PodLedger::record(const std::string& uid) {
  const auto [found, is_new] = records_.try_emplace(uid);
  if (!is_new) {
    touch(found->second);
    return found->second;
  }
  found->second.place = order_.insert(order_.end(), uid);
  if (records_.size() > most_) erase(records_.find(order_.front()));
  return found->second;
}

void PodLedger::touch(Record& record) { order_.splice(order_.end(), order_, record.place); }

void PodLedger::erase(Records::iterator record) {
  order_.erase(record->second.place);
  records_.erase(record);
}

// A pod of which nothing is known has no record.
void PodLedger::drop(Records::iterator record, std::type_index section) {
  record->second.sections.erase(section);
  if (record->second.sections.empty()) erase(record);
}

void PodLedger::end(const std::string& ns, const std::string& uid) {
  {
    const MutexLock lock(mutex_);
    if (const auto found = records_.find(uid); found != records_.end()) erase(found);
  }
  for (const EndHandler& handler : handlers_) handler(ns, uid);
}

size_t PodLedger::size() const {
  const MutexLock lock(mutex_);
  return records_.size();
}

}  // namespace compilecache::controller
