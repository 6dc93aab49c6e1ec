#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "operator/caches/heard_pods.hpp"
#include "operator/storage/storage_check.hpp"

// The conditions of a CompileCache, by the conventions of the Kubernetes API and of kstatus: Ready
// and StorageReady are True when all is well. Otherwise Reconciling is True where waiting can help,
// and Stalled where it cannot. InjectionPaused belongs to the breaker; here it is only read.
// PodsUnheard is True where injected pods cannot reach the operator.
//
// Pure; safe from any thread.

namespace compilecache::controller {

struct ConditionInput {
  int64_t generation = 0;
  std::string invalid;  // why the spec cannot be used, "spec.load.timeout: ..."; empty: it can
  std::string invalid_reason = "Invalid";
  StorageVerdict storage;
  std::string unreachable = {};  // why nobody can reach the operator (AgentService::trouble)
};

// Brings the conditions up to date; returns whether any of them changed.
bool update_conditions(std::vector<api::Condition>& conditions, const ConditionInput& input,
                       const std::string& now);

// Brings the condition PodsUnheard up to date; returns whether it changed. Call it before
// update_conditions(), which reads it.
bool update_unheard(std::vector<api::Condition>& conditions, const Silence& silence,
                    int64_t generation, const std::string& now);

// Brings the condition RegistryTrouble up to date. It exists only where the archives are in the
// installation's own registry, and is True where that is full, damaged, or not collected. Returns
// whether anything changed. Pods load all the same.
bool update_registry_trouble(std::vector<api::Condition>& conditions,
                             const std::optional<OwnRegistryTrouble>& trouble, int64_t generation,
                             const std::string& now);

struct CopyFacts {
  const api::LastCopy& last;
  const std::string& trouble;  // StorageFacts::copy_trouble
};
// Brings the condition ArchivesCopied up to date, which there is only where spec.storage.copyFrom
// is; returns whether anything changed.
bool update_copied(std::vector<api::Condition>& conditions, const api::CompileCache& cache,
                   const CopyFacts& facts, const std::string& now);

// Brings the condition SaversAllowed up to date, which there is only where
// spec.save.allowedServiceAccounts is: it names the archives that no pod is given, since other
// accounts' files may be in them. Returns whether anything changed.
bool update_savers(std::vector<api::Condition>& conditions, const api::CompileCache& cache,
                   const std::vector<std::shared_ptr<const api::CompileCacheArchive>>& archives,
                   const std::string& now);

// A message that names the frameworks in `wanted` which the settings lack; empty where they have
// all.
std::string unknown_frameworks(const std::vector<std::string>& wanted,
                               const std::vector<std::string>& known);

}  // namespace compilecache::controller
