#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "operator/caches/heard_pods.hpp"
#include "operator/storage/storage_check.hpp"

// The conditions of a CompileCache, by the conventions of the API and of kstatus: Ready and
// StorageReady say True when all is well; Reconciling and Stalled say True when it is not, and
// whether waiting can help. InjectionPaused belongs to the breaker; here it is only read.
// PodsUnheard says that injected pods cannot reach the operator.
//
// Pure; safe from any thread.

namespace compilecache::controller {

struct ConditionInput {
  int64_t generation = 0;
  std::string invalid;  // why the spec cannot be used, "spec.load.timeout: ..."; empty: it can
  std::string invalid_reason = "Invalid";
  StorageVerdict storage;
};

// Brings the conditions up to date; whether any of them changed.
bool update_conditions(std::vector<api::Condition>& conditions, const ConditionInput& input,
                       const std::string& now);

// The condition PodsUnheard, before update_conditions(), which reads it; whether it changed.
bool update_unheard(std::vector<api::Condition>& conditions, const Silence& silence,
                    int64_t generation, const std::string& now);

// Which of `wanted` the settings do not know, as a message; empty: all are known.
std::string unknown_frameworks(const std::vector<std::string>& wanted,
                               const std::vector<std::string>& known);

}  // namespace compilecache::controller
