#include "webhook/annotations.hpp"

#include <algorithm>

#include "api/names.hpp"
#include "api/user_annotations.hpp"
#include "base/duration.hpp"
#include "base/strings.hpp"
#include "webhook/pod_bounds.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;

// The schema's limit for spec.version.
constexpr size_t kMaxVersion = 128;
// A label value has at most 63 characters, and the cache's name becomes one; a longer one would
// make the pod invalid, which failurePolicy Ignore does not prevent.
constexpr size_t kMaxName = 63;
constexpr std::chrono::hours kMaxDuration{24};
constexpr size_t kLongestDuration = 64;
// The most misspelt annotations that are warned about.
constexpr size_t kMostMisspelt = 8;

tl::unexpected<Skip> invalid(std::string_view name, std::string_view value,
                             std::string_view allowed) {
  return skip(InjectionReason::kAnnotationInvalid,
              std::string(name) + ": \"" + std::string(first_bytes(value, 64)) +
                  "\" cannot be used; " + std::string(allowed));
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

bool is_object_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxName) return false;
  if (!std::all_of(name.begin(), name.end(), is_name_character)) return false;
  const auto at_end = [](char c) { return c != '-' && c != '.'; };
  return at_end(name.front()) && at_end(name.back());
}

// The name of a container.
bool is_label(std::string_view name) {
  return is_object_name(name) && name.find('.') == std::string_view::npos;
}

Decided<std::vector<std::string>> read_list(const Json& pod, const char* name) {
  const auto value = annotation(pod, name);
  std::vector<std::string> items;
  if (!value) return items;
  const auto commas = std::count(value->begin(), value->end(), ',');
  if (value->size() > kLongestNames || static_cast<size_t>(commas) >= kMostNames) {
    return invalid(name, *value,
                   "at most " + std::to_string(kMostNames) + " names are allowed, of " +
                       std::to_string(kLongestNames) + " characters together");
  }
  for (const std::string& part : split(*value, ',')) {
    const std::string item(trim(part));
    if (item.empty()) return invalid(name, *value, "write names separated by commas");
    if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(item);
  }
  if (items.empty()) return invalid(name, *value, "write names separated by commas");
  return items;
}

Decided<std::optional<std::chrono::milliseconds>> read_duration(const Json& pod, const char* name) {
  const auto value = annotation(pod, name);
  if (!value) return std::nullopt;
  const auto duration = parse_duration(value->substr(0, kLongestDuration + 1));
  if (value->size() > kLongestDuration || !duration || *duration > kMaxDuration) {
    return invalid(name, *value, "write a duration of at most 24h, such as 30s or 1m30s");
  }
  return *duration;
}

Decided<std::optional<bool>> read_flag(const Json& pod, const char* name) {
  const auto value = annotation(pod, name);
  if (!value) return std::nullopt;
  if (*value != "true" && *value != "false") {
    return invalid(name, *value, "allowed are true and false");
  }
  return *value == "true";
}

// Injected containers have no place after injected ones.
Decided<std::string> read_after(const Json& pod) {
  const auto value = annotation(pod, api::kAfterAnnotation);
  if (!value) return std::string();
  if (!is_label(*value) || *value == api::kLoaderContainer || *value == api::kSaverContainer) {
    return invalid(
        api::kAfterAnnotation, *value,
        "write the name of an init container that is to start before the injected ones, such as "
        "istio-proxy");
  }
  return std::string(*value);
}

}  // namespace

Decided<PodAnnotations> read_annotations(const Json& pod) {
  const auto cache = annotation(pod, api::kCacheAnnotation);
  if (!cache) return skip(InjectionReason::kNotAnnotated);
  PodAnnotations read;
  read.cache = *cache;
  if (!is_object_name(read.cache)) {
    return invalid(api::kCacheAnnotation, *cache,
                   "write the name of a CompileCache: at most 63 lower-case letters, digits, '-' "
                   "and '.'");
  }
  if (const auto mode = annotation(pod, api::kModeAnnotation)) {
    const auto parsed = api::parse_word<api::Mode>(*mode);
    if (!parsed) {
      return invalid(api::kModeAnnotation, *mode,
                     "allowed are ReadWrite, ReadOnly, Refresh, Disabled and ForceCold");
    }
    read.mode = *parsed;
  }
  if (const auto version = annotation(pod, api::kVersionAnnotation)) read.version = *version;
  if (read.version && read.version->size() > kMaxVersion) {
    return invalid(api::kVersionAnnotation, *read.version, "at most 128 characters are allowed");
  }
  auto containers = read_list(pod, api::kContainersAnnotation);
  if (!containers) return tl::unexpected(containers.error());
  read.containers = std::move(*containers);
  auto frameworks = read_list(pod, api::kFrameworksAnnotation);
  if (!frameworks) return tl::unexpected(frameworks.error());
  read.frameworks = std::move(*frameworks);
  const auto only = read_flag(pod, api::kOnlyIfUnsetAnnotation);
  if (!only) return tl::unexpected(only.error());
  read.only_if_unset = only->value_or(false);
  const auto kit = read_flag(pod, api::kStartKitAnnotation);
  if (!kit) return tl::unexpected(kit.error());
  read.start_kit = *kit;
  if (const auto delivery = annotation(pod, api::kDeliveryAnnotation)) {
    read.delivery = api::parse_word<api::Delivery>(*delivery);
    if (!read.delivery) {
      return invalid(api::kDeliveryAnnotation, *delivery,
                     "allowed are " + api::all_words<api::Delivery>());
    }
  }
  const auto after = read_after(pod);
  if (!after) return tl::unexpected(after.error());
  read.after = *after;
  const auto quiet = read_duration(pod, api::kQuietPeriodAnnotation);
  if (!quiet) return tl::unexpected(quiet.error());
  read.quiet_period = *quiet;
  const auto wait = read_duration(pod, api::kWaitForFirstAnnotation);
  if (!wait) return tl::unexpected(wait.error());
  read.wait_for_first = *wait;
  return read;
}

std::vector<std::string> spelling_warnings(const Json& pod) {
  const Json& metadata = object_member(pod, "metadata");
  std::vector<std::string> warnings;
  for (const auto& [key, value] : members(member(metadata, "annotations"))) {
    if (warnings.size() == kMostMisspelt) break;
    if (std::string fault = api::annotation_fault(text_of(key)); !fault.empty()) {
      warnings.push_back(std::move(fault));
    }
  }
  const bool labelled = !member(object_member(metadata, "labels"), api::kCacheLabel).IsNull();
  if (labelled && !annotation(pod, api::kCacheAnnotation)) warnings.push_back(api::label_fault());
  return warnings;
}

}  // namespace compilecache::webhook
