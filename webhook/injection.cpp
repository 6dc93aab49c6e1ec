#include "webhook/injection.hpp"

#include <algorithm>

#include "api/injected_place.hpp"
#include "api/names.hpp"
#include "base/strings.hpp"
#include "webhook/annotations.hpp"
#include "webhook/decision.hpp"
#include "webhook/eligibility.hpp"
#include "webhook/environment.hpp"
#include "webhook/injection_patch.hpp"
#include "webhook/injection_plan.hpp"
#include "webhook/pod_bounds.hpp"
#include "webhook/pod_shape.hpp"
#include "webhook/strip.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;
using frameworks::Framework;

constexpr char kOnlyVariables[] =
    "the variables of the Redis server were added to the pod, and nothing else, as the "
    "CompileCache has no spec.storage";

InjectionReport report_of(InjectionOutcome outcome, InjectionReason reason,
                          const std::string& detail = {}) {
  InjectionReport report{outcome, reason, detail, {}};
  if (detail.empty()) report.message = std::string(api::text_of(reason).sentence);
  return report;
}

// A requested or ordinary result needs no warning.
bool deserves_warning(InjectionReason reason) {
  return reason != InjectionReason::kNotAnnotated && reason != InjectionReason::kDisabled &&
         reason != InjectionReason::kMirrorPod && reason != InjectionReason::kNamespaceExcluded &&
         reason != InjectionReason::kOwnCaches;
}

// A pod without an injection, and the patch that removed one.
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
  const auto growth = check_growth(plain.pod, patch, injection->status);
  if (!growth) return skipped(std::move(plain), growth.error());
  const std::string what = injection->agents.empty()
                               ? kOnlyVariables
                               : api::tell_injected(place_of_agents(plain.pod, *injection));
  InjectionResult result{std::move(plain.patch),
                         report_of(InjectionOutcome::kInjected, InjectionReason::kInjected, what)};
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
  for (std::string& warning : spelling_warnings(input.pod)) {
    result.report.warnings.push_back(std::move(warning));
  }
  return result;
}

InjectionResult decide(const InjectionInput& input) {
  const auto kind = check_pod_kind(input);
  if (!kind) {
    InjectionResult result = skipped({input.pod, {}}, kind.error());
    if (kind.error().reason == InjectionReason::kNotAnnotated) {
      result.report.warnings = spelling_warnings(input.pod);
    }
    return result;
  }
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
