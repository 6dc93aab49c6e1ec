#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

// Helm as a user would call it, on charts/compile-cache. The program is $HELM (else the one on the
// PATH; `tests/cluster/cluster helm` builds one).
//
//   const Objects objects = rendered({{"registry", {{"enabled", true}}}});
//   EXPECT_EQ(at(objects.at("Deployment/compilecache-operator"), "/spec/replicas"), 2);
//
// Thread-safe.

namespace compilecache::testing {

inline constexpr char kChartNamespace[] = "compilecache-system";

// By "Kind/name".
using Objects = std::map<std::string, nlohmann::json>;

ProcessResult helm(const std::vector<std::string>& arguments, const std::string& input = "");

// The folder of the chart.
std::string chart();

// `helm template` of the chart; hooks, which are what `helm test` runs, only with `hooks`. A chart
// that does not render fails the test.
enum class Hooks { kNo, kOnly };
Objects rendered(const nlohmann::json& values, const std::string& ns = kChartNamespace,
                 Hooks hooks = Hooks::kNo);
// The same call, where it is expected to fail.
ProcessResult render(const nlohmann::json& values, const std::string& ns = kChartNamespace);

// Those of a text of YAML documents; two of one name fail the test.
Objects objects_of(const std::string& yaml);

// Without what Helm alone has: its labels, resource-policy, and the checksums by which pods are
// rolled where kustomize has names with hashes.
nlohmann::json without_helms_own(nlohmann::json object);

// The differences: JSON pointer to the value after, null where it was removed. Lists of different
// lengths differ as a whole.
std::map<std::string, nlohmann::json> changes(const nlohmann::json& before,
                                              const nlohmann::json& after,
                                              const std::string& path = "");

}  // namespace compilecache::testing
