#include "cli/explain/pod_story.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "api/outcomes.hpp"
#include "api/reasons.hpp"
#include "api/user_annotations.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "cli/explain/pod_story_key.hpp"
#include "cli/text/json_at.hpp"
#include "cli/text/outcome_reasons.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr size_t kToldEvents = 6;

std::string pod_annotation(const json& pod, const char* name) {
  return kube::string_at(pod, {"metadata", "annotations", name});
}

class Teller {
 public:
  explicit Teller(const PodFacts& facts) : facts_(facts), pod_(facts.pod) {}

  PodStory tell() {
    story_.ns = text_in(pod_, "/metadata/namespace");
    story_.pod = text_in(pod_, "/metadata/name");
    story_.node = text_in(pod_, "/spec/nodeName");
    story_.phase = text_in(pod_, "/status/phase");
    story_.created = text_in(pod_, "/metadata/creationTimestamp");
    story_.cache = pod_annotation(pod_, api::kCacheAnnotation);
    story_.unread = facts_.unread;
    find_recent();
    tell_events();
    tell_injection();
    if (story_.injected) {
      tell_key();
      tell_load();
      tell_effect();
      tell_save();
    }
    story_.start = start_times({.pod = pod_,
                                .events = facts_.events,
                                .events_unread = facts_.events_unread,
                                .injection = injection_,
                                .recent = recent_,
                                .log = facts_.log});
    advise();
    return std::move(story_);
  }

 private:
  void find_recent() {
    if (!facts_.cache) return;
    const std::string uid = text_in(pod_, "/metadata/uid");
    for (const api::RecentPod& recent : facts_.cache->status.recent.list()) {
      if (recent.pod_uid == uid) recent_ = recent;
    }
  }

  // The operator's Events that name this pod; those of its owner name it in their message.
  void tell_events() {
    for (const json& event : facts_.events) {
      const std::string message = text_in(event, "/message");
      const bool about_pod =
          text_in(event, "/involvedObject/uid") == text_in(pod_, "/metadata/uid");
      const bool ours = text_in(event, "/source/component") == "compilecache-operator" ||
                        text_in(event, "/reportingComponent") == "compilecache-operator";
      if (!ours || !(about_pod || message.find("pod " + story_.pod + ":") == 0)) continue;
      if (!about_pod && is_told_by_the_pod(event)) continue;
      story_.events.push_back(
          {event_time(event),
           text_in(event, "/involvedObject/kind") + " " + text_in(event, "/involvedObject/name"),
           text_in(event, "/reason"), message});
    }
    std::sort(story_.events.begin(), story_.events.end(),
              [](const auto& a, const auto& b) { return a.time < b.time; });
    if (story_.events.size() > kToldEvents) {
      story_.events.erase(story_.events.begin(),
                          story_.events.end() - static_cast<std::ptrdiff_t>(kToldEvents));
    }
  }

  // Whether the pod has the same Event as its owner.
  [[nodiscard]] bool is_told_by_the_pod(const json& of_owner) const {
    const std::string uid = text_in(pod_, "/metadata/uid");
    const std::string said = text_in(of_owner, "/message"), start = "pod " + story_.pod + ": ";
    const std::string message = said.substr(std::min(start.size(), said.size()));
    return std::any_of(facts_.events.begin(), facts_.events.end(), [&](const json& event) {
      return text_in(event, "/involvedObject/uid") == uid &&
             text_in(event, "/reason") == text_in(of_owner, "/reason") &&
             text_in(event, "/message") == message;
    });
  }

  static std::string event_time(const json& event) {
    for (const char* place : {"/series/lastObservedTime", "/lastTimestamp", "/eventTime",
                              "/metadata/creationTimestamp"}) {
      if (const std::string time = text_in(event, place); !time.empty()) return time;
    }
    return "";
  }

  void tell_injection() {
    const std::string written = pod_annotation(pod_, api::kStatusAnnotation);
    if (!written.empty()) {
      if (auto status = api::parse_injection_status(written)) injection_ = std::move(*status);
    }
    if (injection_) {
      story_.injected = true;
      story_.mode = api::to_string(injection_->mode);
      story_.version = injection_->version;
      story_.frameworks = injection_->frameworks;
      story_.start_kit = injection_->kit_left_off.value_or(std::vector<std::string>());
      story_.containers = injection_->containers;
      return because(api::InjectionReason::kInjected);
    }
    using Reason = api::InjectionReason;
    if (story_.cache.empty()) return because(Reason::kNotAnnotated);
    const auto mode = api::parse_word<api::Mode>(pod_annotation(pod_, api::kModeAnnotation));
    if (mode == api::Mode::kDisabled) return because(Reason::kDisabled);
    if (mode == api::Mode::kForceCold) return because(Reason::kForcedCold);
    if (said_at_admission()) return;
    if (facts_.cache_unread || facts_.events_unread) {
      story_.injection = "unknown";
      story_.injection_why = "what says why could not be read";
      return;
    }
    if (!facts_.cache) return because(Reason::kCacheNotFound);
    if (facts_.cache->metadata.deleting) return because(Reason::kCacheDeleting);
    if (const auto* ready =
            api::find_condition(facts_.cache->status.conditions, api::kReadyCondition);
        ready != nullptr && ready->status != "True") {
      const bool paused = ready->reason == api::kInjectionPausedCondition;
      because(paused ? Reason::kInjectionPaused : Reason::kCacheNotReady);
      story_.injection_why += " (now: " + ready->reason + ": " + ready->message + ")";
      return;
    }
    story_.injection = "not_asked";
    story_.injection_why =
        "the webhook was not asked or did not answer when the pod was created. Nothing keeps "
        "it from being injected now: the operator was not there, or the CompileCache was made or "
        "became ready later";
  }

  void because(api::InjectionReason reason) {
    const auto& known = api::text_of(reason);
    story_.injection = known.word;
    story_.injection_why = known.sentence;
  }

  // The webhook's own word, about the owner, since the pod did not exist yet. Of several the last
  // one before the pod was there.
  bool said_at_admission() {
    const auto made = time_in(pod_, "/metadata/creationTimestamp");
    std::string best_time;
    for (const json& event : facts_.events) {
      const std::string reason = text_in(event, "/reason");
      for (const auto& known : api::injection_reasons()) {
        if (known.event != reason || known.reason == api::InjectionReason::kInjected) continue;
        const std::string time = event_time(event);
        // An owner's Event is written just after the pod; a minute is more than that takes.
        const auto said = parse_time(time);
        if (said && made && *said + std::chrono::minutes(1) < *made) continue;
        if (!story_.injection.empty() && time < best_time) continue;
        best_time = time;
        story_.injection = known.word;
        story_.injection_why = text_in(event, "/message");
      }
    }
    return !story_.injection.empty();
  }

  void tell_key() {
    const api::ArchiveKey key = recent_ && !recent_->key.empty()
                                    ? recent_->key
                                    : key_of_pod(injection_->key_basis, facts_.node);
    story_.key = parts_of(key, injection_->key_basis, pod_, facts_.node);
    if (key.contains(api::kGpuProductPart)) story_.key_archive = archive_of_key(key);
    if (load_outcome() != api::LoadOutcome::kExact) tell_nearest(key);
  }

  // The one that is there for the host's CPU, else for every one; else the name that its own has.
  [[nodiscard]] std::string archive_of_key(const api::ArchiveKey& key) const {
    const std::string host = api::cpu_of(key);
    std::string name = api::archive_name(story_.cache, key);
    api::CpuFit best = api::CpuFit::kOther;
    for (const auto& archive : facts_.archives) {
      const api::CpuFit fit = api::cpu_fit(archive.key, host);
      if (fit <= best || !api::is_same_but_cpu(archive.key, key)) continue;
      best = fit;
      name = archive.metadata.name;
    }
    return name;
  }

  // Nothing: not reported, or in a word that only another release knows.
  [[nodiscard]] std::optional<api::LoadOutcome> load_outcome() const {
    return recent_ ? api::parse_word<api::LoadOutcome>(recent_->load) : std::nullopt;
  }
  [[nodiscard]] std::optional<api::SaveOutcome> save_outcome() const {
    return recent_ ? api::parse_word<api::SaveOutcome>(recent_->save) : std::nullopt;
  }
  [[nodiscard]] std::optional<api::Effect> effect() const {
    return recent_ ? api::parse_word<api::Effect>(recent_->effect) : std::nullopt;
  }

  void tell_nearest(const api::ArchiveKey& key) {
    const api::CompileCacheArchive* nearest = nullptr;
    std::vector<std::string> fewest;
    for (const auto& archive : facts_.archives) {
      if (!archive.head.exists()) continue;
      auto differs = differences(archive.key, key);
      if (nearest != nullptr && differs.size() >= fewest.size()) continue;
      nearest = &archive;
      fewest = std::move(differs);
    }
    if (nearest == nullptr) return;
    story_.nearest = nearest->metadata.name;
    story_.nearest_differs = std::move(fewest);
  }

  void tell_load() {
    if (!recent_) {
      story_.load_why = why_no_report();
      return;
    }
    story_.load = recent_->load;
    story_.archive = recent_->archive;
    story_.generation = recent_->generation;
    story_.bytes = recent_->bytes;
    if (load_outcome() == api::LoadOutcome::kExact) {
      story_.load_why = "the archive of exactly this key";
    } else if (load_outcome() == api::LoadOutcome::kCompatible) {
      story_.load_why = "the newest archive that differs in the image only";
    } else {
      story_.load_reason = recent_->reason;
      const auto* known = find_load_reason(recent_->reason);
      story_.load_why = known != nullptr ? std::string(known->why) : recent_->reason;
      if (!recent_->message.empty()) story_.load_why += ": " + recent_->message;
    }
  }

  std::string why_no_report() const {
    if (facts_.cache_unread) {
      return "CompileCache " + story_.cache + ", which has the pod's report, could not be read";
    }
    if (!facts_.cache) return "CompileCache " + story_.cache + " does not exist any more";
    const bool one = injection_->one_container();
    const json loader = status_of_loader();
    if (loader.is_null() || loader.at("state").contains("waiting")) {
      // While a hook loads, the kubelet says that its container waits.
      std::string why =
          one ? "the sidecar has not started, or is loading" : "the loader has not started";
      const std::string reason = text_in(loader, "/state/waiting/reason");
      if (!reason.empty()) why += ": " + reason + " " + text_in(loader, "/state/waiting/message");
      return why;
    }
    if (!one && loader.at("state").contains("running")) return "the loader is running";
    const std::string ended = text_in(loader, "/state/terminated/reason");
    if (!ended.empty() && ended != "Completed") return "the loader ended: " + ended;
    if (is_silenced()) return "the operator has never received a call from pods like this one";
    return "the operator does not know: status.recent holds the last pods only, and a pod that met "
           "no operator is reported later";
  }

  // Egress to the operator is denied to pods of this namespace.
  [[nodiscard]] bool is_silenced() const {
    if (recent_ || !facts_.cache) return false;
    const auto* unheard =
        api::find_condition(facts_.cache->status.conditions, api::kPodsUnheardCondition);
    return unheard != nullptr && unheard->status == "True";
  }

  [[nodiscard]] json status_of_loader() const {
    const json& all = at(pod_, "/status/initContainerStatuses");
    if (!all.is_array()) return nullptr;
    for (const json& one : all) {
      if (text_in(one, "/name") == loader_name() && one.contains("state")) return one;
    }
    return nullptr;
  }

  // The container that loads.
  [[nodiscard]] const char* loader_name() const {
    return injection_->one_container() ? api::kSaverContainer : api::kLoaderContainer;
  }

  void tell_effect() {
    if (!recent_) return;
    story_.loaded_entries = recent_->loaded_entries;
    story_.read_entries = recent_->read_entries;
    story_.new_entries = recent_->new_entries;
    story_.compiled = recent_->compiled;
    story_.differing = recent_->differing;
    story_.compile_seconds = static_cast<double>(recent_->compile_milliseconds) / 1000;
    story_.seconds_saved = static_cast<double>(recent_->saved_milliseconds) / 1000;
    story_.effect = recent_->effect;
    if (const auto known = effect()) story_.effect_why = effect_sentence(*known);
  }

  static std::string effect_sentence(api::Effect effect) {
    switch (effect) {
      case api::Effect::kFull:
        return "what was loaded was used, and hardly anything was compiled";
      case api::Effect::kPartial:
        return "what was loaded was used, and more was compiled";
      case api::Effect::kNone:
        return "nothing of what was loaded was used; everything was compiled again";
      case api::Effect::kUnused:
        return "the application has read nothing that was loaded and kept nothing new (yet); what "
               "it "
               "compiles in less time than its own threshold (JAX: 1 s) it does not keep";
      case api::Effect::kUnknown:
        return "the pod's file system does not show reads (noatime)";
    }
    return "";
  }

  void tell_save() {
    if (!recent_) return;
    story_.save = recent_->save;
    story_.save_reason = recent_->save_reason;
    const auto* known = find_save_reason(recent_->save_reason);
    if (known != nullptr) story_.save_why = known->why;
  }

  void advise() {
    advise_spelling();
    if (!story_.injected) return advise_injection();
    if (facts_.cache_unread) {
      change("ask with an account that may read CompileCaches and their archives in the namespace");
    } else if (!facts_.cache) {
      change("create CompileCache " + story_.cache + " again, or take the annotation off");
    }
    if (!story_.effect.empty()) advise_effect();
    if (is_silenced()) {
      change(
          "let pods of this namespace reach the operator: docs/run/network-policy.md has the "
          "NetworkPolicy that is needed");
    }
    advise_on_a_mesh();
    if (const auto* known = find_load_reason(story_.load_reason); known != nullptr) {
      change(std::string(known->change));
    }
    if (story_.load_reason == "no_archive" && !story_.nearest.empty() &&
        !story_.nearest_differs.empty()) {
      change("pods that are to share archives must have the same key; here it differs in " +
             join(story_.nearest_differs, "; "));
    }
    advise_trust();
    if (const auto* known = find_save_reason(story_.save_reason);
        known != nullptr && (save_outcome() == api::SaveOutcome::kRefused ||
                             save_outcome() == api::SaveOutcome::kFailed)) {
      change(std::string(known->change));
    }
    if (recent_ && story_.seconds_saved > 0 &&
        static_cast<double>(recent_->milliseconds) / 1000 > story_.seconds_saved) {
      change("loading took longer than it saved: use a faster store, or lower spec.load.timeout");
    }
  }

  void advise_spelling() {
    const json& annotations = at(pod_, "/metadata/annotations");
    if (annotations.is_object()) {
      for (const auto& [key, value] : annotations.items()) change(api::annotation_fault(key));
    }
    const bool labelled = !kube::string_at(pod_, {"metadata", "labels", api::kCacheLabel}).empty();
    if (labelled && story_.cache.empty()) change(api::label_fault());
  }

  void advise_injection() {
    if (story_.injection == "unknown") {
      return change("ask with an account that may read CompileCaches and Events of the namespace");
    }
    if (waited_for_the_cache() && is_ready_now()) {
      change("the CompileCache is ready now: " + how_to_recreate());
    } else if (story_.injection == "not_asked") {
      change("see that the operator runs (kubectl get pods -n compilecache-system), then " +
             how_to_recreate());
    } else if (story_.injection == "not_annotated") {
      change("annotate the pod template with compilecache.dev/cache: NAME and recreate the pod");
    } else if (story_.injection != "disabled" && story_.injection != "forced_cold") {
      change("correct what is said above, then recreate the pod: a running pod is never changed");
    }
  }

  [[nodiscard]] bool waited_for_the_cache() const {
    using Reason = api::InjectionReason;
    constexpr std::array kOfTheCache{Reason::kCacheNotFound, Reason::kCacheNotReady,
                                     Reason::kInjectionPaused};
    return std::any_of(kOfTheCache.begin(), kOfTheCache.end(), [&](Reason reason) {
      return story_.injection == api::text_of(reason).word;
    });
  }

  [[nodiscard]] bool is_ready_now() const {
    if (!facts_.cache || facts_.cache->metadata.deleting) return false;
    const auto* ready = api::find_condition(facts_.cache->status.conditions, api::kReadyCondition);
    return ready != nullptr && ready->status == "True";
  }

  // Of a Deployment's ReplicaSet the name ends in the hash that its pods have as a label.
  [[nodiscard]] std::string how_to_recreate() const {
    const json& owners = at(pod_, "/metadata/ownerReferences");
    const json owner = owners.is_array() && !owners.empty() ? owners.front() : json::object();
    const std::string kind = text_in(owner, "/kind"), name = text_in(owner, "/name");
    const std::string hash = "-" + text_in(pod_, "/metadata/labels/pod-template-hash");
    std::string workload;
    if (kind == "ReplicaSet" && hash.size() > 1 && name.ends_with(hash)) {
      workload = "deployment/" + name.substr(0, name.size() - hash.size());
    } else if (kind == "StatefulSet" || kind == "DaemonSet") {
      workload = (kind == "StatefulSet" ? "statefulset/" : "daemonset/") + name;
    }
    return workload.empty() ? "recreate the pod"
                            : "kubectl rollout restart " + workload + " -n " + story_.ns;
  }

  void advise_effect() {
    if (effect() == api::Effect::kNone) {
      for (const std::string& name : story_.differing) change(advice_on_factor(name));
      if (story_.differing.empty()) change(advice_on_a_miss());
    } else if (effect() == api::Effect::kPartial &&
               save_outcome() != api::SaveOutcome::kCommitted) {
      change("nothing, when this pod's save is committed: the next pod loads the new entries too");
    } else if (effect() == api::Effect::kUnknown) {
      change(
          "mount the node's disk with relatime instead of noatime to see the effect; the cache "
          "works all the same");
    }
  }

  static std::string advice_on_factor(const std::string& name) {
    if (name == "config_hash") {
      return "config_hash: give vLLM the same model and arguments in all pods of this key, or give "
             "each kind a CompileCache or compilecache.dev/version of its own";
    }
    if (name == "compiler_hash") {
      return "compiler_hash: PyTorch, Triton, the GPU or Inductor's settings differ; another image "
             "needs one cold start of its own";
    }
    if (name == "code_hash") {
      return "code_hash: the model's code or vLLM's version differs; another image needs one cold "
             "start of its own";
    }
    return "the variable " + name +
           " is part of the framework's key: give it the same value in all pods, or remove it";
  }

  std::string advice_on_a_miss() const {
    if (load_outcome() == api::LoadOutcome::kCompatible) {
      return "another image often has another PyTorch, whose keys differ: once this pod's save is "
             "committed the next pod of this image loads its own archive";
    }
    return "the framework took other keys than the pod that saved: look for a setting, a version "
           "or "
           "code that differs between the two. Where it changed for all, the next save settles it";
  }

  // A mesh's CNI plugin sends egress to the proxy from the pod's start, and who comes before the
  // proxy meets nobody there.
  void advise_on_a_mesh() {
    const bool unanswered = is_silenced() || story_.load_reason == "operator_unreachable" ||
                            story_.load_reason == "node_unknown";
    if (!unanswered) return;
    const json& all = at(pod_, "/spec/initContainers");
    if (!all.is_array()) return;
    bool after_us = false;
    for (const json& one : all) {
      const std::string name = text_in(one, "/name");
      if (name == api::kLoaderContainer || name == api::kSaverContainer) {
        after_us = true;
      } else if (after_us && text_in(one, "/restartPolicy") == "Always") {
        return change("if " + name +
                      " is a mesh's proxy and nothing leaves the pod without it, annotate the pod "
                      "template with compilecache.dev/after: " +
                      name);
      }
    }
  }

  void advise_trust() {
    for (const auto& archive : facts_.archives) {
      if (archive.metadata.name != story_.key_archive) continue;
      if (is_crashing(archive)) {
        change("archive " + archive.metadata.name +
               " is suspect: pods crashed that had loaded it; replace those that go on crashing "
               "(docs/troubleshoot/suspect-archives.md)");
      } else if (is_suspect(archive)) {
        change("archive " + archive.metadata.name +
               " is suspect: a sweep Job checks it (kubectl get cca -o yaml says why)");
      }
      if (is_corrupt(archive)) {
        change("archive " + archive.metadata.name +
               " was damaged: what replaces it is saved by the next pod; check the volume or the "
               "registry");
      }
    }
  }

  void change(const std::string& what) {
    if (!what.empty() &&
        std::find(story_.change.begin(), story_.change.end(), what) == story_.change.end()) {
      story_.change.push_back(what);
    }
  }

  const PodFacts& facts_;
  const json& pod_;
  std::optional<api::RecentPod> recent_;
  std::optional<api::InjectionStatus> injection_;
  PodStory story_;
};

}  // namespace

PodStory tell_story(const PodFacts& facts) { return Teller(facts).tell(); }

}  // namespace compilecache::cli
