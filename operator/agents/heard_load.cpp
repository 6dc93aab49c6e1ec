#include "operator/agents/heard_load.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/time_format.hpp"
#include "operator/agents/agent_words.hpp"
#include "operator/archives/digest.hpp"

namespace compilecache::controller {
namespace {

int64_t at_least_nothing(int64_t count) { return std::max<int64_t>(0, count); }

// The archive that the pod names, where it is one of its own CompileCache.
std::shared_ptr<const api::CompileCacheArchive> archive_named(const ClusterView& view,
                                                              const Caller& caller,
                                                              const std::string& name) {
  auto archive = view.archive(caller.ns(), name);
  if (archive == nullptr || archive->cache != caller.cache->metadata.name) return nullptr;
  return archive;
}

// The time to compile that manifest's entries. The archive may have grown since.
double compile_seconds_of(const ClusterView& view, const Caller& caller,
                          const api::LoadedReport& report) {
  const auto known = archive_named(view, caller, report.archive);
  if (known == nullptr) return 0;
  const bool is_previous =
      known->previous.exists() && known->previous.manifest_digest == report.manifest_digest;
  return (is_previous ? known->previous : known->head).compile_seconds;
}

// Whether it crashes will be compared with the others of its key. One that says it runs on an
// archive that is none of its CompileCache's (any more) is compared with nobody.
void watch_start(const ClusterView& view, CrashWatch& crashes, const Caller& caller,
                 const HeardLoad& heard) {
  if (heard.warm() && !heard.archive.empty()) {
    const auto known = archive_named(view, caller, heard.archive);
    if (known == nullptr) return;
    return crashes.loaded(crash_group(*known), heard.manifest, caller.pod->uid, caller.pod->group);
  }
  const auto key = key_of(view, caller);
  if (!key) return;
  crashes.loaded(archive_of(caller, *key), heard.manifest, caller.pod->uid, caller.pod->group);
}

void tell_event(kube::EventSink& events, const Caller& caller, const HeardLoad& heard) {
  const LoadSeen& seen = heard.seen;
  const auto tell = [&](kube::EventType type, const char* reason, const std::string& message) {
    record_event(events, caller, type, reason, message);
  };
  if (heard.warm()) {
    tell(kube::EventType::kNormal, "CacheLoaded",
         "loaded archive " + heard.archive + " (" + std::string(api::to_string(seen.load)) +
             ") in " + std::to_string(seen.milliseconds) + " ms, " +
             std::to_string(seen.wait_milliseconds) + " ms of them waiting");
  } else if (seen.load == api::LoadOutcome::kFailed) {
    tell(kube::EventType::kWarning, "CacheLoadFailed",
         "starts cold: " + seen.reason + ": " + heard.message);
  } else {
    tell(kube::EventType::kNormal, "CacheMissing",
         "starts cold: " + seen.reason + " (key " + key_text(seen.key) + ")");
  }
}

void log_load(const Caller& caller, const HeardLoad& heard) {
  const LoadSeen& seen = heard.seen;
  log_info("loaded",
           {{"reason", heard.warm() ? std::string(api::to_string(seen.load)) : seen.reason},
            {"outcome", heard.outcome},
            {"namespace", caller.ns()},
            {"cache", caller.cache->metadata.name},
            {"pod", caller.pod->name},
            {"archive", heard.archive},
            {"source", heard.source},
            {"milliseconds", std::to_string(seen.milliseconds)},
            {"waited_ms", std::to_string(seen.wait_milliseconds)},
            {"waited_for", seen.wait_reason},
            {"asked_ms", std::to_string(seen.ask_milliseconds)},
            {"bytes", std::to_string(heard.bytes)},
            {"key", key_text(seen.key)},
            {"message", heard.message}});
}

}  // namespace

HeardLoad hear_load(const ClusterView& view, const Caller& caller, const api::LoadedReport& report,
                    WallTime now) {
  HeardLoad heard;
  LoadSeen& seen = heard.seen;
  seen.pod = caller.pod->name;
  seen.pod_uid = caller.pod->uid;
  seen.node = caller.node();
  seen.gpu_product = product_of(view, caller);
  seen.load = load_outcome(report);
  seen.milliseconds = at_least_nothing(report.milliseconds);
  seen.reason = cut(report.reason, kReasonLength);
  seen.time = format_time(now);
  seen.key = displayable_key(view, caller);
  if (!seen.key.empty() && api::is_cpu_name(report.cpu)) {
    seen.key = api::with_cpu(seen.key, report.cpu);
  }
  seen.wait_milliseconds = at_least_nothing(report.waited_ms);
  seen.ask_milliseconds = at_least_nothing(report.asked_ms);
  seen.wait_reason = wait_word(report.waited_for);
  if (seen.load == api::LoadOutcome::kFailed) {
    seen.message = cut(report.message, kStatusMessageLength);
  }
  heard.archive = cut(report.archive, kArchiveNameLength);
  heard.message = cut(report.message, kMessageLength);
  heard.bytes = at_least_nothing(report.bytes);
  heard.outcome = api::to_string(report.outcome);
  heard.source = api::to_string(report.source);
  if (heard.warm()) {
    if (archive_named(view, caller, heard.archive) != nullptr) seen.archive = heard.archive;
    seen.generation = at_least_nothing(report.generation);
    seen.bytes = heard.bytes;
    seen.compile_seconds = compile_seconds_of(view, caller, report);
    if (is_digest(report.manifest_digest)) heard.manifest = report.manifest_digest;
  }
  return heard;
}

std::vector<LoadSink> load_sinks(const ClusterView& view, CacheStats& stats, CrashWatch& crashes,
                                 Metrics& metrics, ArchiveRegistry& registry,
                                 kube::EventSink& events) {
  return {
      [&](const Caller& caller, const HeardLoad& heard) { stats.loaded(caller.key(), heard.seen); },
      [&](const Caller& caller, const HeardLoad& heard) {
        watch_start(view, crashes, caller, heard);
      },
      [&](const Caller& caller, const HeardLoad& heard) {
        metrics.load({caller.ns(), caller.cache->metadata.name, heard.seen.gpu_product,
                      heard.seen.load, static_cast<double>(heard.seen.milliseconds) / 1000,
                      heard.bytes, heard.seen.reason});
      },
      [&](const Caller& caller, const HeardLoad& heard) {
        if (!heard.warm() || archive_named(view, caller, heard.archive) == nullptr) return;
        registry.loaded(caller.ns(), heard.archive,
                        heard.seen.load == api::LoadOutcome::kExact ? api::Match::kExact
                                                                    : api::Match::kCompatible);
      },
      [&](const Caller& caller, const HeardLoad& heard) { tell_event(events, caller, heard); },
      log_load,
  };
}

}  // namespace compilecache::controller
