#include "webhook/strip.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "base/json_writer.hpp"
#include "base/strings.hpp"
#include "webhook/path_safety.hpp"
#include "webhook/pod_bounds.hpp"
#include "webhook/volumes.hpp"

namespace compilecache::webhook {

namespace {

using Names = std::set<std::string, std::less<>>;

constexpr char kOurPrefix[] = "compilecache-";

Names ours_of(const std::vector<std::string>& names) {
  Names ours;
  for (const std::string& name : names) {
    if (name.starts_with(kOurPrefix)) ours.insert(name);
  }
  return ours;
}

// The status of an injected pod; nothing of any other.
std::optional<api::InjectionStatus> status_of(const Json& pod) {
  const auto text = annotation(pod, api::kStatusAnnotation);
  if (!text || text->size() > api::kLongestInjectionStatus) return std::nullopt;
  const Json& labels = member(member(pod, "metadata"), "labels");
  if (text_member(labels, api::kCacheLabel).empty()) return std::nullopt;
  auto status = api::parse_injection_status(std::string(*text));
  if (!status || status->version.empty() || status->hash.empty()) return std::nullopt;
  return std::move(*status);
}

// Whether the text is what `pattern` becomes: "{directory}" stands for a path that is mounted,
// "{host}" and "{port}" for any.
bool is_made_from(std::string_view text, std::string_view pattern,
                  const std::vector<std::string>& mounted) {
  const size_t open = pattern.find('{');
  const size_t close = pattern.find('}');
  if (open == std::string_view::npos || close == std::string_view::npos) return text == pattern;
  const std::string_view before = pattern.substr(0, open);
  const std::string_view after = pattern.substr(close + 1);
  if (text.size() < before.size() + after.size() || !text.starts_with(before) ||
      !text.ends_with(after)) {
    return false;
  }
  if (pattern.substr(open, close + 1 - open) != "{directory}") return true;
  const std::string path =
      normalized_path(text.substr(before.size(), text.size() - before.size() - after.size()));
  return !path.empty() &&
         std::any_of(mounted.begin(), mounted.end(),
                     [&](const std::string& point) { return is_within(path, point); });
}

class Stripper {
 public:
  Stripper(const Json& pod, const api::InjectionStatus& status, const InjectionSettings& settings)
      : pod_(pod),
        settings_(settings),
        volumes_(ours_of(status.volumes)),
        init_containers_(ours_of(status.init_containers)) {
    for (const std::string& variable : status.variables) {
      // "CONTAINER:VARIABLE", of which the former is as yet whatever somebody wrote.
      const size_t colon = variable.rfind(':');
      if (colon == std::string::npos) continue;
      variables_[variable.substr(0, colon)].insert(variable.substr(colon + 1));
    }
  }

  Patch run() {
    webhook::remove(patch_, "/metadata/annotations/" + escaped(api::kStatusAnnotation));
    safe_to_evict();
    label();
    const Json& spec = spec_of(pod_);
    // Their mounts before themselves: what is removed changes the indices of what comes after it.
    mounts_of("initContainers");
    variables_of("initContainers");
    remove_if(spec, "/spec", "initContainers",
              [&](const Json& item) { return is_ours(init_containers_, item); });
    remove_if(spec, "/spec", "volumes", [&](const Json& item) { return is_ours(volumes_, item); });
    mounts_of("containers");
    variables_of("containers");
    return std::move(patch_);
  }

 private:
  static bool is_ours(const Names& names, const Json& item) {
    return names.contains(text_member(item, "name"));
  }

  // Removes from the last to the first, so that the indices stay right. A list that would become
  // empty is removed as a whole.
  template <typename Which>
  void remove_if(const Json& object, const std::string& path, const char* list,
                 const Which& which) {
    const auto items = array_member(object, list);
    std::vector<std::string> removals;
    for (size_t i = items.Size(); i > 0; --i) {
      if (!which(items[static_cast<rapidjson::SizeType>(i - 1)])) continue;
      removals.push_back(path + "/" + list + "/" + std::to_string(i - 1));
    }
    if (!removals.empty() && removals.size() == items.Size()) removals = {path + "/" + list};
    for (std::string& removal : removals) webhook::remove(patch_, std::move(removal));
  }

  // Our mounts are removed from every container: a pod that mounts a volume which it no longer has
  // is refused.
  void mounts_of(const char* list) {
    const auto containers = array_member(spec_of(pod_), list);
    for (rapidjson::SizeType i = 0; i < containers.Size(); ++i) {
      if (is_ours(init_containers_, containers[i])) continue;  // it goes as a whole
      remove_if(containers[i], std::string("/spec/") + list + "/" + std::to_string(i),
                "volumeMounts", [&](const Json& item) { return is_ours(volumes_, item); });
    }
  }

  void variables_of(const char* list) {
    const auto containers = array_member(spec_of(pod_), list);
    for (rapidjson::SizeType i = 0; i < containers.Size(); ++i) {
      const auto names = variables_.find(text_member(containers[i], "name"));
      if (names == variables_.end() || is_ours(init_containers_, containers[i])) continue;
      learn_mounts(containers[i]);
      remove_if(
          containers[i], std::string("/spec/") + list + "/" + std::to_string(i), "env",
          [&](const Json& item) { return is_ours(names->second, item) && is_our_value(item); });
    }
  }

  void learn_mounts(const Json& container) {
    mounted_.clear();
    ours_mounted_.clear();
    for (const Json& mount : array_member(container, "volumeMounts")) {
      const std::string point = normalized_path(text_member(mount, "mountPath"));
      if (point.empty() || point == "/") continue;
      auto& points = is_ours(volumes_, mount) ? ours_mounted_ : mounted_;
      if (points.size() < kMostNames) points.push_back(point);
    }
  }

  // Whether the variable has a value that we give it; looks at the mounts of the container that was
  // read last.
  bool is_our_value(const Json& variable) const {
    const std::string_view value = text_member(variable, "value");
    if (has_member(variable, "valueFrom") || value.size() > kLongestDirectory) return false;
    const std::string path = normalized_path(value);
    if (!path.empty() && std::any_of(ours_mounted_.begin(), ours_mounted_.end(),
                                     [&](const auto& point) { return is_within(path, point); })) {
      return true;
    }
    const std::string name(text_member(variable, "name"));
    return std::any_of(
        settings_.frameworks.begin(), settings_.frameworks.end(), [&](const auto& item) {
          const frameworks::Framework& framework = item.second;
          const auto kit = framework.start_kit.find(name);
          return sets(framework.env, name, value) || sets(framework.redis_env, name, value) ||
                 (kit != framework.start_kit.end() &&
                  is_made_from(value, kit->second.value, mounted_));
        });
  }

  bool sets(const std::map<std::string, std::string>& environment, const std::string& name,
            std::string_view value) const {
    const auto found = environment.find(name);
    return found != environment.end() && is_made_from(value, found->second, mounted_);
  }

  void safe_to_evict() {
    const auto present = annotation(pod_, kSafeToEvictAnnotation);
    if (!present) return;
    std::vector<std::string> kept = split(*present, ',');
    if (std::erase_if(kept, [&](const auto& name) { return volumes_.contains(name); }) == 0) return;
    if (kept.empty()) {
      webhook::remove(patch_, "/metadata/annotations/" + escaped(kSafeToEvictAnnotation));
      return;
    }
    JsonWriter out;
    out.value(join(kept, ","));
    put(patch_, "/metadata/annotations", kSafeToEvictAnnotation, out.text());
  }

  void label() {
    const Json& labels = member(member(pod_, "metadata"), "labels");
    const bool alone = labels.MemberCount() == 1;
    webhook::remove(patch_,
                    alone ? "/metadata/labels" : "/metadata/labels/" + escaped(api::kCacheLabel));
  }

  const Json& pod_;
  const InjectionSettings& settings_;
  const Names volumes_, init_containers_;
  std::map<std::string, Names, std::less<>> variables_;  // by container
  std::vector<std::string> mounted_, ours_mounted_;
  Patch patch_;
};

}  // namespace

Decided<Patch> strip_injection(const Json& pod, const InjectionSettings& settings) {
  const auto status = status_of(pod);
  if (!status) return Patch();
  Patch patch = Stripper(pod, *status, settings).run();
  if (patch.size() > kMostRemovals) {
    return skip(api::InjectionReason::kPodTooLarge,
                "compilecache.dev/status names " + std::to_string(patch.size()) +
                    " pieces of an earlier injection; remove that annotation");
  }
  return patch;
}

}  // namespace compilecache::webhook
