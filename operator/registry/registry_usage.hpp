#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.hpp"

// How much each namespace keeps in the installation's own registry: what was found there
// (registry_audit.hpp), and what was committed since.
//
//   RegistryUsage usage;
//   usage.found("ml/llama", 8'004'241);         // an audit has read that repository
//   usage.committed("ml/llama", 1'000);         // a save has added so much since
//   usage.audited({"ml/llama"});                // the audit is complete; others are gone
//   usage.of_namespace("ml");                   // 8'005'241
//
// Thread-safe.

namespace compilecache::controller {

class RegistryUsage {
 public:
  void found(const std::string& repository, uint64_t bytes);
  void committed(const std::string& repository, uint64_t bytes);
  // All repositories that there are.
  void audited(const std::vector<std::string>& repositories);
  // Nothing: no audit was complete yet.
  [[nodiscard]] std::optional<uint64_t> of_namespace(const std::string& ns) const;
  [[nodiscard]] uint64_t total() const;

 private:
  struct Bytes {
    uint64_t found = 0, committed = 0;
  };
  mutable Mutex mutex_;
  bool audited_ GUARDED_BY(mutex_) = false;
  std::map<std::string, Bytes> repositories_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
