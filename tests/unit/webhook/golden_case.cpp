#include "tests/unit/webhook/golden_case.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/support/paths.hpp"
#include "tests/unit/webhook/pods.hpp"

namespace compilecache::webhook::testing {

using nlohmann::json;

namespace {

std::string root() { return compilecache::testing::testdata("injection"); }

frameworks::Trap trap_of(const json& object) {
  const auto list = [&](const char* name) {
    return object.value(name, std::vector<std::string>());
  };
  return {.name = object.at("name"),
          .frameworks = list("frameworks"),
          .unless_frameworks = list("unlessFrameworks"),
          .images = list("images"),
          .words = list("words"),
          .variables = list("variables"),
          .variables_of_pod = list("variablesOfPod"),
          .numbered_user = object.value("numberedUser", false),
          .unless_variables = list("unlessVariables"),
          .warning = object.at("warning")};
}

InjectionSettings settings_of(const json& object) {
  InjectionSettings settings;
  settings.version = object.at("version");
  settings.image = object.at("image");
  settings.excluded_namespaces = object.at("excludedNamespaces");
  settings.resource_claims = object.value("resourceClaims", true);
  settings.native_sidecars = object.value("nativeSidecars", true);
  settings.agent_address = object.at("agentAddress");
  settings.agent_port = object.at("agentPort");
  settings.agent_name = object.at("agentName");
  settings.agent_ca = object.at("agentCa");
  const json own = object.value("ownRegistry", json::object());
  settings.own_registry = {own.value("host", ""), own.value("address", "")};
  settings.gpu_resources = object.at("gpuResources");
  settings.harmless_resources = object.at("harmlessResources");
  for (const auto& [name, value] : object.at("frameworks").items()) {
    frameworks::Framework framework;
    framework.name = name;
    framework.env = value.at("env");
    framework.redis_env = value.value("redisEnv", framework.redis_env);
    const json kits = value.value("startKit", json::object());
    for (const auto& [variable, kit] : kits.items()) {
      framework.start_kit[variable] = {kit.at("value"), kit.at("since"), kit.at("brings")};
    }
    framework.cold_env = value.value("coldEnv", framework.cold_env);
    framework.directory_variable = value.at("directoryVariable");
    framework.key_parts = value.value("keyParts", std::vector<std::string>());
    framework.only_if_unset = value.value("onlyIfUnset", false);
    framework.part_of = value.value("partOf", std::vector<std::string>());
    settings.frameworks[name] = framework;
  }
  for (const json& trap : object.at("traps")) settings.traps.push_back(trap_of(trap));
  return settings;
}

template <typename T>
T need(Result<T> result, const std::string& what) {
  if (!result) throw std::runtime_error(what + ": " + result.error().message);
  return std::move(*result);
}

void read_facts(GoldenCase& golden, const json& object) {
  golden.ns = object.value("namespace", golden.ns);
  for (const json& range : object.value("limitRanges", json::array())) {
    for (const LimitRule& rule : need(parse_limit_range(range), golden.folder)) {
      golden.facts.limits.push_back(rule);
    }
  }
  for (const json& quota : object.value("quotas", json::array())) {
    golden.facts.quotas.push_back(need(parse_resource_quota(quota), golden.folder));
  }
}

// The value for all cases with the case's own merged over it.
json merged(const GoldenCase& golden, const char* file) {
  json value = read_json(root() + "/" + file).value();
  if (const auto own = read_json(golden.folder + "/" + file)) value.merge_patch(*own);
  return value;
}

// What made-from.json says: the pod of another case, or its result, changed. So another
// webhook's later change, and pods too large to be read, are distinguished from our own.
json made_pod(GoldenCase& golden, const json& recipe) {
  const GoldenCase origin = load_golden_case(recipe.at("case"));
  json pod = origin.pod;
  if (recipe.value("injected", false)) pod = origin.run(pod).pod.value();
  pod = pod.patch(recipe.value("patch", json::array()));
  const json variables = recipe.value("variables", json::object());
  json& env = pod["spec"]["containers"][0]["env"];
  for (int i = 0; i < variables.value("count", 0); ++i) {
    env.push_back({{"name", "VARIABLE_" + std::to_string(i)},
                   {"value", std::string(variables.at("bytes").get<size_t>(), 'x')}});
    golden.is_large = true;
  }
  return pod;
}

json pod_of(GoldenCase& golden) {
  if (auto pod = read_json(golden.folder + "/pod.json")) return *pod;
  return made_pod(golden, read_json(golden.folder + "/made-from.json").value());
}

}  // namespace

std::vector<std::string> golden_case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root())) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

GoldenCase load_golden_case(const std::string& name) {
  GoldenCase golden;
  golden.folder = root() + "/" + name;
  golden.pod = pod_of(golden);
  golden.settings = settings_of(merged(golden, "settings.json"));
  const json cache = merged(golden, "cache.json");
  if (!cache.is_null()) golden.cache = need(api::parse_compile_cache(cache), golden.folder);
  if (const auto facts = read_json(golden.folder + "/facts.json")) read_facts(golden, *facts);
  return golden;
}

Injected GoldenCase::run(const json& on_pod) const {
  const JsonDocument tree = tree_of(on_pod);
  InjectionResult result = inject({.pod = tree,
                                   .ns = ns,
                                   .cache = cache ? &*cache : nullptr,
                                   .facts = facts,
                                   .settings = settings});
  Injected injected{std::nullopt, to_json(result.patch), std::move(result.report)};
  if (!injected.patch.empty()) injected.pod = on_pod.patch(injected.patch);
  return injected;
}

json to_json(const InjectionReport& report) {
  return {{"outcome", to_string(report.outcome)},
          {"reason", api::text_of(report.reason).word},
          {"message", report.message},
          {"warnings", report.warnings}};
}

bool contains_in_order(const json& whole, const json& part) {
  if (part.is_object()) {
    for (const auto& [key, value] : part.items()) {
      if (!whole.contains(key) || !contains_in_order(whole[key], value)) return false;
    }
    return true;
  }
  if (!part.is_array()) return whole == part;
  size_t next = 0;
  for (const json& item : whole) {
    if (next < part.size() && contains_in_order(item, part[next])) ++next;
  }
  return next == part.size();
}

bool updating_golden() { return std::getenv("CC_UPDATE_GOLDEN") != nullptr; }

std::optional<json> read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return json::parse(file);
}

void write_json(const std::string& path, const json& value) {
  std::ofstream(path) << value.dump(2) << '\n';
}

}  // namespace compilecache::webhook::testing
