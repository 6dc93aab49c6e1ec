#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "kube/client.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/registry/own_repositories.hpp"
#include "operator/registry/registry_usage.hpp"

// Looks at all that is in the installation's own registry: how much each namespace keeps there,
// what cannot be read, what its last collection found, and which repositories nobody needs. Those
// of a CompileCache that was deleted, or whose namespace was, are marked in the registry itself, so
// that a new leader goes on counting, and emptied when they were marked for long enough. The
// leader's.
//
//   RegistryAudit audit({.repositories = repositories, .view = view, .client = client,
//                        .usage = usage, .ns = "compilecache-system"}, clock);
//   audit.round();  // regularly
//   return audit.health().unreadable;
//
// What could not be asked is never taken for empty: without a list there is no verdict, and before
// a repository is emptied the API server itself says that there is no such CompileCache. round() is
// for one thread, the rest for any.

namespace compilecache::controller {

// What becomes of a repository.
enum class RepositoryCare { kNothing, kMark, kUnmark, kEmpty };
struct RepositoryFacts {
  bool needed = false;
  size_t tags = 0;  // without the mark
  std::optional<WallTime> unneeded_since;
  WallTime now{};
};
// `keep`: how long what nobody needs stays. Pure.
RepositoryCare care_for(const RepositoryFacts& facts, Duration keep);

// What collect.sh says of the collection before the registry's start.
struct CollectionReport {
  bool collected = false;
  uint64_t set_aside = 0;  // links and manifests that could not be read
};
// Of the registry's pod; nothing: it has not ended, or says nothing. Pure.
std::optional<CollectionReport> collection_report(const nlohmann::json& pod);

struct RegistryHealth {
  std::optional<WallTime> audited;  // when the last audit was complete
  std::string trouble;              // why none was complete since; empty: it was
  uint64_t bytes = 0;               // that tags reach
  uint64_t repositories = 0, unneeded = 0;
  uint64_t unreadable = 0;           // tags
  std::vector<std::string> damaged;  // the repositories that have them, 20 at most
  bool leftovers = false;            // repositories without tags, for collection to remove
  std::optional<CollectionReport> collection;
};

class RegistryAudit {
 public:
  struct Parts {
    const OwnRepositories& repositories;
    const ClusterView& view;
    kube::Client client;
    RegistryUsage& usage;
    std::string ns;  // the registry's
    Duration keep_deleted = std::chrono::hours(24);
    // How many bytes nobody names any more.
    std::function<void(uint64_t bytes)> deleted;
    std::function<bool()> stopped;
  };
  RegistryAudit(Parts parts, const Clock& clock) : parts_(std::move(parts)), clock_(clock) {}

  Status round();
  [[nodiscard]] RegistryHealth health() const;

 private:
  Status look_at_all(RegistryHealth& health);
  Result<store::RepositoryUse> look_at(const std::string& repository, RegistryHealth& health);
  Status care(const std::string& repository, const store::RepositoryUse& use,
              RegistryHealth& health);
  [[nodiscard]] bool is_needed(const std::string& ns, const std::string& cache) const;
  [[nodiscard]] Result<bool> exists(const std::string& ns, const std::string& cache) const;
  Status empty(const std::string& repository, const store::RepositoryUse& use);
  [[nodiscard]] Result<std::optional<CollectionReport>> read_collection() const;

  const Parts parts_;
  const Clock& clock_;
  int round_ = 0;
  std::map<std::string, store::RepositoryUse> known_;  // of the last round
  mutable Mutex mutex_;
  RegistryHealth health_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
