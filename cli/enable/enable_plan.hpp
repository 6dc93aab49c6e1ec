#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/cluster/workload_template.hpp"
#include "webhook/settings.hpp"

// What `kubectl compilecache enable` is to write: a CompileCache, unless there is one, and a patch
// of the workload's pod template. Pure; safe from any thread.
//
//   const auto plan = plan_enable(input);
//   if (!plan) return complain(plan.error(), errors);
//   std::cout << yaml_of(*plan);

namespace compilecache::cli {

struct EnableInput {
  nlohmann::json object;  // the workload, as the API server has it, with apiVersion and kind
  WorkloadTemplate workload;
  std::string cache;        // as --cache names it; empty: by the annotation or the workload's name
  std::string storage;      // as --storage says it; empty: not said
  nlohmann::json existing;  // the CompileCache of that name; null: there is none
  // Whether the installation has a registry of its own; nothing: it could not be read.
  std::optional<bool> registry;
  nlohmann::json claim;  // that `storage` names; null: it could not be read
  // LimitRanges and ResourceQuotas of the namespace, as manifests.
  std::vector<nlohmann::json> bounds;
  webhook::InjectionSettings settings;
};

struct EnablePlan {
  std::string ns, kind, name, api_version;  // of the workload
  std::string cache_name;
  nlohmann::json cache;     // to be created; null: it exists
  nlohmann::json patch;     // RFC 6902, with a test that the template is what was read; null: none
  nlohmann::json merge;     // the same change for people, a partial object; null: none
  std::string consequence;  // "A roll-out replaces its 3 pods: …"
  std::vector<std::string> notes;  // what to know before

  [[nodiscard]] bool nothing_to_do() const { return cache.is_null() && patch.is_null(); }
};

// The CompileCache's name: --cache, else what the template's annotation says, else the workload's.
std::string cache_name_for(const WorkloadTemplate& workload, const std::string& asked);

// The claim that --storage names: "caches" of "claim=caches"; empty for the registry. kInvalid: it
// is neither.
Result<std::string> claim_of_storage(const std::string& storage);

// kInvalid: it cannot be enabled; the message says why and what to do.
Result<EnablePlan> plan_enable(const EnableInput& input);

// Both documents, for kubectl apply --server-side; empty where there is nothing to do.
std::string yaml_of(const EnablePlan& plan);

// Why something that people type in place of a workload is none that can be enabled, and what to
// do: of pods, and of kinds of other operators. Empty: nothing is known.
std::string why_no_workload(const std::string& typed);

}  // namespace compilecache::cli
