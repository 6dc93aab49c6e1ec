#include "operator/registry/collection_roll.hpp"

namespace compilecache::controller {

bool roll_is_due(const RollFacts& facts, const RollRules& rules) {
  if (!facts.started) return false;
  const Duration age = facts.now - *facts.started;
  if (age < rules.interval) return false;
  const bool waited = age >= kLongestWait * rules.interval;
  const bool saved_since = facts.last_save && *facts.last_save > *facts.started;
  if (facts.garbage < rules.above && !(waited && saved_since)) return false;
  if (waited) return true;
  return facts.saves == 0 && (!facts.last_save || facts.now - *facts.last_save >= rules.quiet_for);
}

uint64_t garbage_since(const std::vector<DeletedBytes>& deleted, WallTime started) {
  uint64_t bytes = 0;
  for (const DeletedBytes& one : deleted) {
    if (one.time > started) bytes += one.bytes;
  }
  return bytes;
}

}  // namespace compilecache::controller
