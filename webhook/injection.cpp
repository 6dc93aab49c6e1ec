#include "webhook/injection.hpp"

#include <algorithm>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "base/json_writer.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "podspec/environment.hpp"
#include "webhook/agent_config.hpp"
#include "webhook/agent_containers.hpp"
#include "webhook/annotations.hpp"
#include "webhook/decision.hpp"
#include "webhook/delivery.hpp"
#include "webhook/directories.hpp"
#include "webhook/environment.hpp"
#include "webhook/own_caches.hpp"
#include "webhook/pod_bounds.hpp"
#include "webhook/pod_shape.hpp"
#include "webhook/resource_wishes.hpp"
#include "webhook/resources.hpp"
#include "webhook/security_context.hpp"
#include "webhook/selection.hpp"
#include "webhook/strip.hpp"
#include "webhook/traps.hpp"
#include "webhook/volumes.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;
using frameworks::Framework;

constexpr char kMirrorAnnotation[] = "kubernetes.io/config.mirror";
constexpr size_t kHashDigits = 16;
constexpr char kOnlyVariables[] =
    "the variables of the Redis server were added to the pod, and nothing else, as the "
    "CompileCache has no spec.storage";

// Everything that goes into the pod, decided before anything is changed.
struct Injection {
  std::string cache;
  std::string after;  // the init container after which ours are; empty: before all
  Selection selection;
  std::vector<podspec::Volume> volumes;
  // Our init containers: names, and as JSON. None: only variables are injected.
  std::vector<std::string> agent_names, agents;
  ResourcePlan resources;
  // One environment for each chosen container, in their order.
  std::vector<std::vector<podspec::Variable>> environments;
  std::vector<podspec::Mount> mounts;
  std::string safe_to_evict;  // the whole annotation; "" without volumes of ours
  std::vector<std::string> warnings;
  api::InjectionStatus status;
};

Decided<void> check_pod_kind(const InjectionInput& input) {
  const auto& excluded = input.settings.excluded_namespaces;
  if (std::find(excluded.begin(), excluded.end(), input.ns) != excluded.end()) {
    return skip(InjectionReason::kNamespaceExcluded);
  }
  if (!wanted_cache(input.pod)) return skip(InjectionReason::kNotAnnotated);
  if (annotation(input.pod, kMirrorAnnotation)) return skip(InjectionReason::kMirrorPod);
  const Json& spec = spec_of(input.pod);
  const bool windows =
      text_member(object_member(spec, "os"), "name") == "windows" ||
      text_member(object_member(spec, "nodeSelector"), "kubernetes.io/os") == "windows";
  if (windows) return skip(InjectionReason::kWindowsPod);
  return {};
}

std::string explained(const std::string& start, const api::Condition* condition) {
  if (condition == nullptr || condition->message.empty()) return start;
  return start + ": " + condition->message;
}

Decided<void> check_cache(const InjectionInput& input, const PodAnnotations& annotations) {
  const std::string name = "CompileCache \"" + annotations.cache + "\"";
  if (input.cache == nullptr) {
    return skip(InjectionReason::kCacheNotFound,
                "there is no " + name + " in namespace \"" + std::string(input.ns) +
                    "\"; create it or correct the annotation " + api::kCacheAnnotation);
  }
  if (input.cache->metadata.deleting) return skip(InjectionReason::kCacheDeleting);
  const auto& conditions = input.cache->status.conditions;
  if (api::is_true(conditions, api::kInjectionPausedCondition)) {
    return skip(InjectionReason::kInjectionPaused,
                explained("injection for " + name + " is paused",
                          api::find_condition(conditions, api::kInjectionPausedCondition)));
  }
  if (!api::is_true(conditions, api::kStorageReadyCondition)) {
    return skip(InjectionReason::kCacheNotReady,
                explained("the storage of " + name + " is not ready",
                          api::find_condition(conditions, api::kStorageReadyCondition)));
  }
  if (!input.settings.native_sidecars && input.cache->spec.storage) {
    return skip(InjectionReason::kKubeletTooOld);
  }
  return {};
}

Decided<std::vector<const Framework*>> select_frameworks(const InjectionInput& input,
                                                         const PodAnnotations& annotations) {
  const bool by_pod = !annotations.frameworks.empty();
  const auto& wanted = by_pod ? annotations.frameworks : input.cache->spec.frameworks;
  std::vector<const Framework*> selected;
  for (const std::string& name : wanted) {
    const auto found = input.settings.frameworks.find(name);
    if (found == input.settings.frameworks.end()) {
      std::vector<std::string> known;
      for (const auto& item : input.settings.frameworks) known.push_back(item.first);
      return skip(InjectionReason::kUnknownFramework,
                  std::string(by_pod ? api::kFrameworksAnnotation : "spec.frameworks") + ": \"" +
                      name + "\" is not a known framework; the operator's settings have " +
                      join(known, ", "));
    }
    if (std::find(selected.begin(), selected.end(), &found->second) == selected.end()) {
      selected.push_back(&found->second);
    }
  }
  return selected;
}

// `pod` carries no injection of ours, so whatever has one of our names is the user's.
Decided<void> check_names(const Json& pod, const std::vector<podspec::Volume>& volumes,
                          const PodAnnotations& annotations) {
  for (const char* list : {"initContainers", "containers", "ephemeralContainers"}) {
    for (const char* name : {api::kLoaderContainer, api::kSaverContainer}) {
      if (find_named(array_member(spec_of(pod), list), name) != nullptr) {
        return skip(InjectionReason::kNameConflict,
                    "the pod has a container \"" + std::string(name) + "\" of its own; rename it");
      }
    }
  }
  for (const auto& [name, json] : volumes) {
    if (find_named(array_member(spec_of(pod), "volumes"), name) != nullptr) {
      return skip(InjectionReason::kNameConflict,
                  "the pod has a volume \"" + name + "\" of its own; rename it");
    }
  }
  const Json& labels = object_member(object_member(pod, "metadata"), "labels");
  const std::string label(text_member(labels, api::kCacheLabel));
  if (!label.empty() && label != annotations.cache) {
    return skip(InjectionReason::kNameConflict, "the pod has the label " +
                                                    std::string(api::kCacheLabel) + "=" + label +
                                                    ", which is ours; remove it");
  }
  return {};
}

std::string hash_of(const Injection& injection) {
  std::vector<std::string> parts{injection.cache, join(injection.agents, "\n"),
                                 injection.safe_to_evict};
  for (const podspec::Volume& volume : injection.volumes) parts.push_back(volume.json);
  for (const podspec::Mount& mount : injection.mounts) parts.push_back(to_json(mount));
  for (const auto& environment : injection.environments) {
    for (const podspec::Variable& variable : environment) parts.push_back(to_json(variable));
    parts.emplace_back();
  }
  return sha256_hex(join(parts, "\n")).substr(0, kHashDigits);
}

api::InjectionStatus status_of(const Json& pod, const Injection& injection,
                               const api::AgentConfig& config, const InjectionSettings& settings) {
  api::InjectionStatus status;
  status.version = settings.version;
  status.hash = hash_of(injection);
  status.init_containers = injection.agent_names;
  for (const podspec::Volume& volume : injection.volumes) status.volumes.push_back(volume.name);
  for (size_t i = 0; i < injection.selection.containers.size(); ++i) {
    const Json& container = container_at(pod, injection.selection.containers[i]);
    const std::string name(text_member(container, "name"));
    status.containers.push_back(name);
    for (const podspec::Variable& variable : injection.environments[i]) {
      status.variables.push_back(name + ":" + variable.name);
    }
  }
  for (const podspec::Mount& mount : injection.mounts) status.mounts.push_back(mount.path);
  for (const api::AgentConfig::Directory& directory : config.directories) {
    status.frameworks.push_back(directory.framework.name);
  }
  status.mode = config.mode;
  status.wait_for_first_ms = config.load.wait_for_first.count();
  status.key_basis = config.key_basis;
  return status;
}

// PyTorch can neither only read its Redis cache nor write it anew, and that it is joined to one is
// part of its keys, and of vLLM's: pods of other modes are joined to a port where nobody listens.
// PyTorch gives up such a server at the first refusal.
api::CompileCacheSpec::Redis redis_for(const InjectionInput& input,
                                       const PodAnnotations& annotations) {
  if (!is_host(input.cache->spec.remote_cache.redis.host)) return {};
  if (annotations.mode != api::Mode::kReadWrite) return {.host = "127.0.0.1", .port = 1};
  return input.cache->spec.remote_cache.redis;
}

std::string no_registry(const std::string& cache) {
  return "CompileCache \"" + cache +
         "\" keeps its archives in the registry that is installed with the operator, and there is "
         "none; install it, or name a claim or a registry of yours in spec.storage";
}

std::string bad_host(const InjectionInput& input) {
  return "spec.remoteCache.redis.host: \"" +
         std::string(first_bytes(input.cache->spec.remote_cache.redis.host, 64)) +
         "\" cannot be used; write the name or address of a host";
}

// The injection for a CompileCache that keeps no archives: the variables of its Redis server and
// nothing else.
Decided<Injection> plan_remote_only(const InjectionInput& input, const Json& pod,
                                    const PodAnnotations& annotations,
                                    const std::vector<const Framework*>& frameworks) {
  const std::string name = "CompileCache \"" + annotations.cache + "\"";
  if (annotations.mode != api::Mode::kReadWrite) {
    return skip(InjectionReason::kAnnotationInvalid,
                std::string(api::kModeAnnotation) + ": \"" +
                    std::string(to_string(annotations.mode)) + "\" cannot be used; " + name +
                    " has no spec.storage, and a Redis server knows only ReadWrite, Disabled and "
                    "ForceCold");
  }
  const bool any = std::any_of(frameworks.begin(), frameworks.end(),
                               [](const Framework* one) { return !one->redis_env.empty(); });
  if (!any) {
    return skip(InjectionReason::kUnknownFramework,
                name +
                    " has no spec.storage, and none of its frameworks has a Redis cache; add "
                    "torch to spec.frameworks");
  }
  if (!is_host(input.cache->spec.remote_cache.redis.host)) {
    return skip(InjectionReason::kCacheNotReady, bad_host(input));
  }
  auto chosen = choose_containers(pod, annotations, input.settings);
  if (!chosen) return tl::unexpected(chosen.error());
  const auto names = check_names(pod, {}, annotations);
  if (!names) return tl::unexpected(names.error());

  Injection injection;
  injection.cache = annotations.cache;
  injection.selection.containers = std::move(*chosen);
  for (const size_t index : injection.selection.containers) {
    injection.environments.push_back(app_environment(container_at(pod, index), {}, frameworks,
                                                     input.cache->spec.remote_cache.redis, false));
  }
  injection.warnings = remote_cache_warnings(pod, injection.selection, frameworks);
  injection.status = status_of(pod, injection, {}, input.settings);
  return injection;
}

// The store of a CompileCache that keeps archives.
Decided<api::StoreRef> store_of(const InjectionInput& input, const PodAnnotations& annotations) {
  auto store = api::store_of(*input.cache, input.settings.own_registry);
  if (!store) return skip(InjectionReason::kCacheNotReady, no_registry(annotations.cache));
  if (store->registry() != nullptr && input.settings.agent_address.empty()) {
    return skip(InjectionReason::kCacheNotReady,
                "the archives of CompileCache \"" + annotations.cache +
                    "\" are in a registry, which has no index: only an operator knows which one is "
                    "a pod's; say where it is (agent.address of the settings, --agent-address)");
  }
  return std::move(*store);
}

// Of the loader and the saver; `app`: the first chosen container.
std::string environment_of(const api::AgentConfig& config, const api::StoreRef& store,
                           const Json& app) {
  const bool users_registry = store.registry() != nullptr && !store.registry()->own;
  return podspec::agent_environment(
      config, users_registry ? proxy_environment(app) : std::vector<std::string>());
}

void warn_of_redis(const InjectionInput& input, const Json& pod,
                   const std::vector<const Framework*>& frameworks, bool is_used,
                   Injection& injection) {
  if (is_used) {
    for (auto& warning : remote_cache_warnings(pod, injection.selection, frameworks)) {
      injection.warnings.push_back(std::move(warning));
    }
  }
  const std::string& host = input.cache->spec.remote_cache.redis.host;
  if (!host.empty() && !is_host(host)) {
    injection.warnings.push_back("compilecache.dev: " + bad_host(input));
  }
}

void add_agents(const AgentContainerInput& agents, bool one_container, Injection& injection) {
  if (!one_container) {
    injection.agent_names.emplace_back(api::kLoaderContainer);
    injection.agents.push_back(loader_container(agents));
  }
  injection.agent_names.emplace_back(api::kSaverContainer);
  injection.agents.push_back(one_container ? sidecar_container(agents) : saver_container(agents));
}

// All decisions for a pod that carries no injection of ours.
Decided<Injection> plan_injection(const InjectionInput& input, const Json& pod,
                                  const PodAnnotations& annotations) {
  const auto wanted = select_frameworks(input, annotations);
  if (!wanted) return tl::unexpected(wanted.error());
  // Without storage pods share what they compile by the framework's own remote cache alone.
  if (!input.cache->spec.storage) return plan_remote_only(input, pod, annotations, *wanted);
  const auto store = store_of(input, annotations);
  if (!store) return tl::unexpected(store.error());
  auto selection = select_containers(pod, annotations, input.settings);
  if (!selection) return tl::unexpected(selection.error());
  const auto frameworks = without_own_caches(pod, *selection, annotations, *wanted);
  if (!frameworks) return tl::unexpected(frameworks.error());
  const auto directories = plan_directories(pod, *selection, *frameworks);
  if (!directories) return tl::unexpected(directories.error());
  const bool reads_only = annotations.mode == api::Mode::kReadOnly;
  Injection injection;
  const DeliveryChoice delivery =
      choose_delivery(annotations.delivery.value_or(input.cache->spec.delivery), pod, *directories);
  const bool one_container = delivery.delivery == api::Delivery::kSidecar;
  const OwnFolders own{.spool = store->registry() != nullptr && !reads_only,
                       .state = one_container};
  const auto empty_dirs = our_empty_dirs(*directories, own);
  injection.volumes = pod_volumes(empty_dirs, *store);
  const auto names = check_names(pod, injection.volumes, annotations);
  if (!names) return tl::unexpected(names.error());

  const std::string ns(input.ns);
  const ResourceWishes wishes = resource_wishes(pod, input.cache->spec.resources);
  injection.resources = plan_resources({pod, *selection, input.facts, input.settings,
                                        wishes.resources, directories->in_memory, one_container});
  const api::AgentConfig config =
      make_agent_config({pod, ns, *input.cache, *store, annotations, *selection, *directories,
                         *frameworks, input.settings, injection.resources.more_storage});
  const Json& first = container_at(pod, selection->containers.front());
  const std::string environment = environment_of(config, *store, first);
  const std::string security = agent_security_context(first, pod);
  const SaverUser saver = reads_only ? SaverUser{} : saver_user(pod, *selection, *input.cache);
  const std::string saver_security = agent_security_context(first, pod, saver.user);

  // The saver is added in mode ReadOnly too, to report the effect of the load.
  const AgentContainerInput agents{
      input.settings, environment,    *directories, *store, injection.resources,
      security,       saver_security, reads_only,   own,    load_limit(config.load)};
  injection.cache = annotations.cache;
  injection.after = annotations.after;
  injection.selection = std::move(*selection);
  add_agents(agents, one_container, injection);
  injection.mounts = directories->mounts;
  const auto redis = redis_for(input, annotations);
  const bool start_kit = annotations.start_kit.value_or(input.cache->spec.start_kit);
  for (const size_t index : injection.selection.containers) {
    injection.environments.push_back(app_environment(
        container_at(pod, index), directories->directories, *frameworks, redis, start_kit));
  }
  injection.safe_to_evict = safe_to_evict_volumes(pod, empty_dirs);
  injection.warnings =
      trap_warnings({pod, injection.selection, *frameworks, *wanted, input.settings.traps});
  const bool joins_redis = !redis.host.empty() && annotations.mode == api::Mode::kReadWrite;
  warn_of_redis(input, pod, *frameworks, joins_redis, injection);
  for (std::string& warning : pod_group_warnings(pod)) {
    injection.warnings.push_back(std::move(warning));
  }
  for (const std::string& warning : {delivery.warning, saver.warning, wishes.warning}) {
    if (!warning.empty()) injection.warnings.push_back(warning);
  }
  for (std::string& warning : injection.resources.warnings) {
    injection.warnings.push_back(std::move(warning));
  }
  injection.status = status_of(pod, injection, config, input.settings);
  auto offers =
      start_kit_offers(pod, injection.selection.containers, directories->directories, *frameworks);
  if (!start_kit && !offers.empty()) injection.status.kit_left_off = std::move(offers);
  return injection;
}

std::string json_of(const std::string& text) {
  JsonWriter out;
  out.value(text);
  return out.text();
}

void patch_metadata(Patch& patch, const Json& pod, const Injection& injection) {
  const auto annotate = [&](const char* name, const std::string& value) {
    put(patch, "/metadata/annotations", name, json_of(value));
  };
  annotate(api::kStatusAnnotation, api::dump(injection.status));
  if (!injection.safe_to_evict.empty()) annotate(kSafeToEvictAnnotation, injection.safe_to_evict);
  if (member(member(pod, "metadata"), "labels").IsObject()) {
    put(patch, "/metadata/labels", api::kCacheLabel, json_of(injection.cache));
  } else {
    put(patch, "/metadata", "labels",
        "{" + json_of(api::kCacheLabel) + ":" + json_of(injection.cache) + "}");
  }
}

void patch_variables(Patch& patch, const Json& pod, size_t container,
                     const std::vector<podspec::Variable>& variables) {
  append(patch, container_at(pod, container), "/spec/containers/" + std::to_string(container),
         "env", to_json(variables));
}

// Where an init container of that name is; nothing where there is none.
std::optional<size_t> init_container_index(const Json& pod, std::string_view name) {
  const auto containers = init_containers_of(pod);
  for (rapidjson::SizeType i = 0; i < containers.Size(); ++i) {
    if (text_member(containers[i], "name") == name) return i;
  }
  return std::nullopt;
}

// First in the list: a mesh's redirection is not yet in force then. Where it is from the start, as
// with a mesh's CNI plugin, they say after whom. Who is not there yet may come with another
// webhook, and then we are asked again.
size_t place_of_agents(const Json& pod, const std::string& after) {
  const auto before_us = after.empty() ? std::nullopt : init_container_index(pod, after);
  return before_us ? *before_us + 1 : 0;
}

Patch patch_of(const Json& pod, const Injection& injection) {
  Patch patch;
  patch_metadata(patch, pod, injection);
  for (size_t i = 0; i < injection.selection.containers.size(); ++i) {
    const size_t index = injection.selection.containers[i];
    patch_variables(patch, pod, index, injection.environments[i]);
    append(patch, container_at(pod, index), "/spec/containers/" + std::to_string(index),
           "volumeMounts", to_json(injection.mounts));
  }
  if (!injection.agents.empty()) {
    insert(patch, spec_of(pod), "/spec", "initContainers", place_of_agents(pod, injection.after),
           injection.agents);
  }
  append(patch, spec_of(pod), "/spec", "volumes", to_json(injection.volumes));
  return patch;
}

bool is_injected_already(const Json& pod, const Injection& injection) {
  const auto text = annotation(pod, api::kStatusAnnotation);
  if (!text || text->size() > kLongestStatus) return false;
  const auto status = api::parse_injection_status(std::string(*text));
  if (!status || status->hash != injection.status.hash ||
      status->version != injection.status.version) {
    return false;
  }
  const auto& ours = injection.status.init_containers;
  const auto earliest =
      injection.after.empty() ? std::nullopt : init_container_index(pod, injection.after);
  return std::all_of(ours.begin(), ours.end(), [&](const std::string& name) {
    const auto index = init_container_index(pod, name);
    return index && (!earliest || *index > *earliest);
  });
}

InjectionReport report_of(InjectionOutcome outcome, InjectionReason reason,
                          const std::string& detail = {}) {
  InjectionReport report{outcome, reason, detail, {}};
  if (detail.empty()) report.message = std::string(api::text_of(reason).sentence);
  return report;
}

// What was asked for, or is a matter of course, needs no warning.
bool deserves_warning(InjectionReason reason) {
  return reason != InjectionReason::kNotAnnotated && reason != InjectionReason::kDisabled &&
         reason != InjectionReason::kMirrorPod && reason != InjectionReason::kNamespaceExcluded &&
         reason != InjectionReason::kOwnCaches;
}

// A pod that carries no injection of ours, and the patch that took one out.
struct Plain {
  const Json& pod;
  Patch patch;
};

InjectionResult skipped(Plain plain, const Skip& why) {
  InjectionResult result{std::move(plain.patch),
                         report_of(InjectionOutcome::kSkipped, why.reason, why.detail)};
  if (deserves_warning(why.reason)) {
    result.report.warnings.push_back("compilecache.dev: not injected, " +
                                     std::string(api::text_of(why.reason).word) + ": " +
                                     result.report.message);
  }
  return result;
}

// ForceCold works without the CompileCache too; frameworks that are not known are left out.
std::vector<const Framework*> cold_frameworks(const InjectionInput& input,
                                              const PodAnnotations& annotations) {
  const api::CompileCacheSpec usual;
  const auto& of_cache = input.cache == nullptr ? usual.frameworks : input.cache->spec.frameworks;
  std::vector<const Framework*> known;
  for (const auto& name : annotations.frameworks.empty() ? of_cache : annotations.frameworks) {
    const auto found = input.settings.frameworks.find(name);
    if (found != input.settings.frameworks.end()) known.push_back(&found->second);
  }
  return known;
}

InjectionResult force_cold(const InjectionInput& input, Plain plain,
                           const PodAnnotations& annotations) {
  const auto chosen = choose_containers(plain.pod, annotations, input.settings);
  if (!chosen) return skipped(std::move(plain), chosen.error());
  const auto frameworks = cold_frameworks(input, annotations);
  for (const size_t index : *chosen) {
    patch_variables(plain.patch, plain.pod, index,
                    cold_environment(container_at(plain.pod, index), frameworks));
  }
  const InjectionOutcome outcome =
      plain.patch.empty() ? InjectionOutcome::kUnchanged : InjectionOutcome::kInjected;
  return {std::move(plain.patch), report_of(outcome, InjectionReason::kForcedCold)};
}

InjectionResult injected(const InjectionInput& input, Plain plain,
                         const PodAnnotations& annotations) {
  auto injection = plan_injection(input, plain.pod, annotations);
  if (!injection) return skipped(std::move(plain), injection.error());
  if (is_injected_already(input.pod, *injection)) {
    return {{}, report_of(InjectionOutcome::kUnchanged, InjectionReason::kAlreadyInjected)};
  }
  const auto room = check_room(plain.pod, injection->resources, input.facts);
  if (!room) return skipped(std::move(plain), room.error());
  Patch patch = patch_of(plain.pod, *injection);
  const auto growth = check_growth(plain.pod, patch);
  if (!growth) return skipped(std::move(plain), growth.error());
  InjectionResult result{std::move(plain.patch),
                         report_of(InjectionOutcome::kInjected, InjectionReason::kInjected,
                                   injection->agents.empty() ? kOnlyVariables : "")};
  for (Edit& edit : patch) result.patch.push_back(std::move(edit));
  result.report.warnings = std::move(injection->warnings);
  return result;
}

InjectionResult decide_plain(const InjectionInput& input, Plain plain) {
  const auto annotations = read_annotations(plain.pod);
  if (!annotations) return skipped(std::move(plain), annotations.error());
  const auto shape = check_shape(plain.pod);
  if (!shape) return skipped(std::move(plain), shape.error());
  InjectionResult result;
  const auto cache = check_cache(input, *annotations);
  if (annotations->mode == api::Mode::kDisabled) {
    result = skipped(std::move(plain), {InjectionReason::kDisabled, {}});
  } else if (annotations->mode == api::Mode::kForceCold) {
    result = force_cold(input, std::move(plain), *annotations);
  } else if (!cache) {
    result = skipped(std::move(plain), cache.error());
  } else {
    result = injected(input, std::move(plain), *annotations);
  }
  for (const std::string& name : annotations->unknown) {
    result.report.warnings.push_back("compilecache.dev: the annotation " + name +
                                     " is not known and has no effect");
  }
  return result;
}

InjectionResult decide(const InjectionInput& input) {
  const auto kind = check_pod_kind(input);
  if (!kind) return skipped({input.pod, {}}, kind.error());
  const auto bounds = check_bounds(input.pod);
  if (!bounds) return skipped({input.pod, {}}, bounds.error());
  auto strip = strip_injection(input.pod, input.settings);
  if (!strip) return skipped({input.pod, {}}, strip.error());
  if (strip->empty()) return decide_plain(input, {input.pod, {}});
  JsonDocument plain;
  plain.CopyFrom(input.pod, plain.GetAllocator());
  const Status applied = apply(patch_text(*strip), plain, plain.GetAllocator());
  if (!applied) {
    return skipped({input.pod, {}}, {InjectionReason::kPatchFailed, applied.error().message});
  }
  return decide_plain(input, Plain{plain, std::move(*strip)});
}

// Cuts messages for people: an Event holds 1024 bytes, and the names in it are of the pod's
// author's choice.
void shorten(InjectionReport& report) {
  constexpr size_t kLongestMessage = 1000;
  constexpr size_t kMostWarnings = 16;
  report.message.resize(first_bytes(report.message, kLongestMessage).size());
  if (report.warnings.size() > kMostWarnings) report.warnings.resize(kMostWarnings);
  for (std::string& warning : report.warnings) {
    warning.resize(first_bytes(warning, kLongestMessage).size());
  }
}

}  // namespace

std::string_view to_string(InjectionOutcome outcome) {
  switch (outcome) {
    case InjectionOutcome::kInjected:
      return "injected";
    case InjectionOutcome::kUnchanged:
      return "unchanged";
    case InjectionOutcome::kSkipped:
      break;
  }
  return "skipped";
}

std::optional<std::string> wanted_cache(const Json& pod) {
  const auto name = annotation(pod, api::kCacheAnnotation);
  if (!name) return std::nullopt;
  return std::string(*name);
}

InjectionResult inject(const InjectionInput& input) {
  InjectionResult result = decide(input);
  shorten(result.report);
  return result;
}

}  // namespace compilecache::webhook
