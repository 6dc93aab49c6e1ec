#include "webhook/agent_config.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "api/names.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/pod_resources.hpp"
#include "webhook/workload.hpp"

namespace compilecache::webhook {

namespace {

using std::chrono::milliseconds;

// Kubernetes' default, and what the saver leaves of it so that the kubelet need not kill it.
constexpr int64_t kDefaultGraceSeconds = 30;
constexpr int64_t kGraceMargin = 1000;

api::KeyBasis key_basis(const AgentConfigInput& input) {
  api::KeyBasis basis;
  basis.parts = input.cache.spec.key;
  for (const frameworks::Framework* framework : input.frameworks) {
    for (const std::string& part : framework->key_parts) {
      if (std::find(basis.parts.begin(), basis.parts.end(), part) == basis.parts.end()) {
        basis.parts.push_back(part);
      }
    }
  }
  basis.gpu_resource = input.selection.gpu_resource;
  basis.gpu_count = input.selection.gpu_count;
  if (!input.selection.claims.empty()) basis.claims = input.selection.claims;
  basis.image = text_member(container_at(input.pod, input.selection.containers.front()), "image");
  basis.workload = workload_of(input.pod);
  basis.version = input.annotations.version.value_or(input.cache.spec.version);
  basis.directories = input.directories.key_text();
  return basis;
}

// "?" for a value that is not literal: from another object, or made of other variables.
std::string value_in(const Json& container, const std::string& variable) {
  const Json* set = find_named(array_member(container, "env"), variable);
  if (set == nullptr) return "";
  const std::string_view value = text_member(*set, "value");
  const bool literal = !has_member(*set, "valueFrom") && value.find("$(") == std::string_view::npos;
  return literal ? std::string(value) : "?";
}

// Of all chosen containers together, since they share the directories. Where only some of them set
// one, that the others do not counts, too.
std::vector<std::string> cpu_variables(const AgentConfigInput& input) {
  std::set<std::string> found;
  for (const frameworks::Framework* framework : input.frameworks) {
    for (const std::string& variable : framework->cpu_variables) {
      std::set<std::string> values;
      for (const size_t index : input.selection.containers) {
        values.insert(value_in(container_at(input.pod, index), variable));
      }
      if (values == std::set<std::string>{""}) continue;
      for (const std::string& value : values) found.insert(variable + "=" + value);
    }
  }
  return {found.begin(), found.end()};
}

// Waiting for another pod holds up a gang that starts together or not at all, so only pods of
// ReplicaSets wait, unless the pod says so itself.
milliseconds wait_for_first(const AgentConfigInput& input) {
  if (input.annotations.wait_for_first) return *input.annotations.wait_for_first;
  const bool replica = text_member(controller_of(input.pod), "kind") == "ReplicaSet";
  return replica ? input.cache.spec.load.wait_for_first : milliseconds(0);
}

milliseconds at_termination(const AgentConfigInput& input) {
  const Json& given = member(spec_of(input.pod), "terminationGracePeriodSeconds");
  const int64_t grace = given.IsInt64() ? given.GetInt64() : kDefaultGraceSeconds;
  const int64_t room = std::max<int64_t>(0, std::min<int64_t>(grace, 86400) * 1000 - kGraceMargin);
  return std::min(input.cache.spec.save.at_termination, milliseconds(room));
}

// Pods that end by themselves, such as those of Jobs, may do so before their directory was still
// for long, and leave little time at their end. Not where the first save is the only one or
// replaces what there is: it may be a part.
milliseconds first_quiet_period(const AgentConfigInput& input) {
  const std::string_view policy = text_member(spec_of(input.pod), "restartPolicy");
  const bool ends = policy == "Never" || policy == "OnFailure";
  const bool saves_again = input.cache.spec.save.policy == api::SavePolicy::kOnChange &&
                           input.annotations.mode == api::Mode::kReadWrite;
  if (!ends || !saves_again || input.annotations.quiet_period) return milliseconds(0);
  const milliseconds first = input.settings.first_quiet_period;
  return first < input.cache.spec.save.quiet_period ? first : milliseconds(0);
}

// The pod is evicted when its emptyDirs and logs outgrow the sum of its containers' limits, the
// saver's too. If there is one, it is for the archives on their way to a registry.
int64_t ephemeral_limit(const AgentConfigInput& input) {
  int64_t limit = 0;
  for (const Json& container : containers_of(input.pod)) {
    const Amounts limits = amounts_of(container).limits;
    const auto found = limits.find("ephemeral-storage");
    if (found != limits.end()) limit += found->second / 1000;
  }
  if (limit > 0) limit += input.more_storage;
  const int64_t volume = input.directories.size_limit;
  if (limit == 0 || volume == 0) return std::max(limit, volume);
  return std::min(limit, volume);
}

}  // namespace

api::AgentConfig make_agent_config(const AgentConfigInput& input) {
  const api::CompileCacheSpec& spec = input.cache.spec;
  api::AgentConfig config;
  config.cache = input.cache.metadata.name;
  config.ns = input.ns;
  config.cache_uid = input.cache.metadata.uid;
  config.operator_address = input.settings.agent_address;
  config.load_address = input.settings.load_address;
  config.operator_port = input.settings.agent_port;
  config.operator_name = input.settings.agent_name;
  config.operator_ca = input.settings.agent_ca;
  config.token_file = std::string(api::kTokenPath) + "/token";
  config.store = input.store;
  config.index_fallback = input.settings.index_fallback && input.store.volume() != nullptr;
  config.ask_operator = !api::is_not_asked(input.cache.status.conditions);
  for (const CacheDirectory& directory : input.directories.directories) {
    config.directories.push_back({*directory.framework, directory.path});
  }
  config.control_path = api::kControlPath;
  config.mode = input.annotations.mode;
  config.key_basis = key_basis(input);
  config.cpu_variables = cpu_variables(input);
  config.load = spec.load;
  config.load.wait_for_first = wait_for_first(input);
  config.save = spec.save;
  config.save.quiet_period = input.annotations.quiet_period.value_or(spec.save.quiet_period);
  config.save.at_termination = at_termination(input);
  config.save.allowed_service_accounts.clear();  // the operator asks, and knows them
  config.compression = spec.compression;
  config.ephemeral_limit_bytes = ephemeral_limit(input);
  config.in_group = is_of_group(input.pod);
  config.first_quiet_period = first_quiet_period(input);
  return config;
}

}  // namespace compilecache::webhook
