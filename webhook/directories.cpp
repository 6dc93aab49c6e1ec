#include "webhook/directories.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "api/names.hpp"
#include "base/quantity.hpp"
#include "base/strings.hpp"
#include "webhook/path_safety.hpp"
#include "webhook/pod_bounds.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;
using frameworks::Framework;

constexpr char kOurFolder[] = "/compilecache";
constexpr size_t kLongestVolumeName = 63;
constexpr std::array<const char*, 4> kMountTexts{"name", "mountPath", "subPath", "subPathExpr"};

std::string default_path(const Framework& framework) {
  return std::string(api::kCachePath) + "/" + framework.name;
}

std::string cut_name(std::string name, size_t length) {
  name.resize(std::min(name.size(), length));
  while (name.ends_with('-')) name.pop_back();
  return name;
}

// "compilecache-cache-torch"; volume names are DNS labels, which frameworks' names need not be: a
// number distinguishes two of those ("my.fw", "my-fw").
std::string volume_name(const Framework& framework, const std::vector<std::string>& taken) {
  std::string name = std::string(api::kCacheVolume) + "-" + framework.name;
  for (char& c : name) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    } else if (!allowed) {
      c = '-';
    }
  }
  std::string free = cut_name(name, kLongestVolumeName);
  for (int i = 2; std::count(taken.begin(), taken.end(), free) > 0; ++i) {
    const std::string number = "-" + std::to_string(i);
    free = cut_name(name, kLongestVolumeName - number.size()) + number;
  }
  return free;
}

// Where the container mounts something, block devices included: no two may share a path.
std::vector<std::string> taken_paths(const Json& container) {
  std::vector<std::string> paths;
  for (const Json& mount : array_member(container, "volumeMounts")) {
    paths.push_back(normalized_path(text_member(mount, "mountPath")));
  }
  for (const Json& device : array_member(container, "volumeDevices")) {
    paths.push_back(normalized_path(text_member(device, "devicePath")));
  }
  return paths;
}

std::string quoted(const Framework& framework, std::string_view value) {
  return framework.directory_variable + ": \"" + std::string(first_bytes(value, 128)) + "\"";
}

class Planner {
 public:
  Planner(const Json& pod, const Selection& selection) : pod_(pod) {
    for (const size_t index : selection.containers) chosen_.push_back(&container_at(pod, index));
  }

  Decided<DirectoryPlan> run(const std::vector<const Framework*>& frameworks) {
    const auto free = own_path_is_free();
    if (!free) return tl::unexpected(free.error());
    plan_.volumes.emplace_back(api::kCacheVolume);
    plan_.mounts.push_back({api::kCacheVolume, api::kCachePath});
    for (const Framework* framework : frameworks) {
      const auto users = users_path(*framework);
      if (!users) return tl::unexpected(users.error());
      const auto placed = place(*framework, *users);
      if (!placed) return tl::unexpected(placed.error());
    }
    drop_nested();
    return std::move(plan_);
  }

 private:
  Decided<void> own_path_is_free() const {
    for (const Json* container : chosen_) {
      for (const std::string& path : taken_paths(*container)) {
        if (is_within(path, api::kCachePath) || is_within(api::kCachePath, path)) {
          return skip(InjectionReason::kMountConflict,
                      "container \"" + std::string(text_member(*container, "name")) + "\" mounts " +
                          path + ", but the cache goes to " + api::kCachePath +
                          "; move that mount");
        }
      }
    }
    return {};
  }

  // The directory that the chosen containers' variable names; nothing when it names none.
  Decided<std::optional<std::string>> users_path(const Framework& framework) const {
    std::optional<std::string> chosen;
    if (framework.directory_variable.empty()) return chosen;
    for (const Json* container : chosen_) {
      const Json* variable =
          find_named(array_member(*container, "env"), framework.directory_variable);
      if (variable == nullptr) continue;
      const std::string_view value = text_member(*variable, "value");
      // $(NAME) is put in by the kubelet.
      if (has_member(*variable, "valueFrom") || value.find("$(") != std::string_view::npos) {
        return skip(InjectionReason::kCacheDirNotLiteral,
                    framework.directory_variable + " of container \"" +
                        std::string(text_member(*container, "name")) +
                        "\" is not literal; write the path itself, or remove the variable");
      }
      const std::string path =
          value.size() > kLongestDirectory ? std::string() : normalized_path(value);
      if (path.empty()) {
        return skip(InjectionReason::kCacheDirUnsafe,
                    quoted(framework, value) +
                        " is not an absolute path without \"..\" of at most " +
                        std::to_string(kLongestDirectory) + " bytes");
      }
      if (chosen && *chosen != path) {
        return skip(InjectionReason::kMountConflict,
                    framework.directory_variable + " differs between containers: " + *chosen +
                        " and " + path + "; use one path, since archives hold absolute paths");
      }
      chosen = path;
    }
    return chosen;
  }

  Decided<void> place(const Framework& framework, const std::optional<std::string>& users) {
    const std::string ours = default_path(framework);
    if (!users || *users == ours) {
      plan_.directories.push_back({&framework, ours, false});
      return {};
    }
    const auto covered = place_in_users_volume(framework, *users);
    if (!covered) return tl::unexpected(covered.error());
    if (!*covered && !inside_planned(*users)) {
      const auto safe = check_safe(framework, *users);
      if (!safe) return tl::unexpected(safe.error());
      const std::string volume = volume_name(framework, plan_.volumes);
      plan_.volumes.push_back(volume);
      plan_.mounts.push_back({volume, *users});
    }
    plan_.directories.push_back({&framework, *users, true});
    return {};
  }

  // Whether the path lies in a volume that the pod mounts there already, which then serves.
  Decided<bool> place_in_users_volume(const Framework& framework, const std::string& path) {
    const Json* covering = nullptr;
    for (const Json* container : chosen_) {
      const Json* mount = innermost_mount(*container, path);
      const bool same = mount == nullptr || covering == nullptr || are_same(*mount, *covering);
      if (container != chosen_.front() && ((mount == nullptr) != (covering == nullptr) || !same)) {
        return skip(InjectionReason::kMountConflict,
                    quoted(framework, path) + " is in different volumes in different containers");
      }
      covering = mount;
    }
    if (covering == nullptr) return false;
    const std::string name(text_member(*covering, "name"));
    const Json* volume = find_named(array_member(spec_of(pod_), "volumes"), name);
    const std::string point = normalized_path(text_member(*covering, "mountPath"));
    const bool usable = volume != nullptr && member(*volume, "emptyDir").IsObject() &&
                        !has_member(*covering, "subPath") &&
                        !has_member(*covering, "subPathExpr") &&
                        !is_true(member(*covering, "readOnly")) && !is_system_path(point) &&
                        !is_within(api::kCachePath, point) && !is_within(point, kOurFolder);
    if (!usable) {
      return skip(InjectionReason::kMountConflict,
                  quoted(framework, path) + " is in the pod's volume \"" + name +
                      "\"; only a writable emptyDir can be filled from an archive");
    }
    note_volume(object_member(*volume, "emptyDir"));
    const podspec::Mount mount{name, std::string(text_member(*covering, "mountPath"))};
    if (std::find(plan_.agent_mounts.begin(), plan_.agent_mounts.end(), mount) ==
        plan_.agent_mounts.end()) {
      plan_.agent_mounts.push_back(mount);
    }
    return true;
  }

  // Compares the fields that make a mount; other fields do not matter to a cache.
  static bool are_same(const Json& one, const Json& other) {
    return is_true(member(one, "readOnly")) == is_true(member(other, "readOnly")) &&
           std::all_of(kMountTexts.begin(), kMountTexts.end(), [&](const char* name) {
             return text_member(one, name) == text_member(other, name);
           });
  }

  static const Json* innermost_mount(const Json& container, const std::string& path) {
    const Json* innermost = nullptr;
    size_t longest = 0;
    for (const Json& mount : array_member(container, "volumeMounts")) {
      const std::string point = normalized_path(text_member(mount, "mountPath"));
      if (point.empty() || !is_within(path, point) || point.size() < longest) continue;
      innermost = &mount;
      longest = point.size();
    }
    return innermost;
  }

  void note_volume(const Json& volume) {
    plan_.in_memory = plan_.in_memory || text_member(volume, "medium") == "Memory";
    const auto limit = parse_bytes(text_member(volume, "sizeLimit"));
    if (!limit || *limit == 0) return;
    const auto bytes = static_cast<int64_t>(*limit);
    plan_.size_limit = plan_.size_limit == 0 ? bytes : std::min(plan_.size_limit, bytes);
  }

  bool inside_planned(const std::string& path) const {
    return std::any_of(
        plan_.directories.begin(), plan_.directories.end(),
        [&](const CacheDirectory& directory) { return is_within(path, directory.path); });
  }

  // An empty directory hides what the image has there, so it must not be a place where anything is.
  Decided<void> check_safe(const Framework& framework, const std::string& path) const {
    const auto unsafe = [&](const std::string& why) {
      return skip(InjectionReason::kCacheDirUnsafe,
                  quoted(framework, path) + ": " + why + "; choose a folder of its own for it");
    };
    if (is_unsafe_mount_point(path)) return unsafe("an empty volume there could hide other files");
    if (is_within(path, kOurFolder)) {
      return unsafe("this path is reserved for the injection");
    }
    for (const Json* container : chosen_) {
      const std::string directory = normalized_path(text_member(*container, "workingDir"));
      if (!directory.empty() && is_within(directory, path)) {
        return unsafe("the working directory " + directory + " is in it");
      }
      if (runs_something_in(*container, path)) return unsafe("the command uses files in it");
      for (const std::string& point : taken_paths(*container)) {
        if (is_within(point, path)) return unsafe("the mount " + point + " is in it");
      }
    }
    return {};
  }

  static bool runs_something_in(const Json& container, const std::string& path) {
    for (const char* list : {"command", "args"}) {
      for (const Json& word : array_member(container, list)) {
        if (text_of(word).find(path + "/") != std::string_view::npos) return true;
      }
    }
    return false;
  }

  // A directory inside another one's is packed with that one.
  void drop_nested() {
    auto& all = plan_.directories;
    const auto nested = [&](const CacheDirectory& inner) {
      return std::any_of(all.begin(), all.end(), [&](const CacheDirectory& outer) {
        return &outer != &inner && is_within(inner.path, outer.path) &&
               (inner.path != outer.path || &outer < &inner);
      });
    };
    std::vector<CacheDirectory> kept;
    for (const CacheDirectory& directory : all) {
      if (!nested(directory)) kept.push_back(directory);
    }
    all = std::move(kept);
  }

  const Json& pod_;
  std::vector<const Json*> chosen_;
  DirectoryPlan plan_;
};

}  // namespace

std::string DirectoryPlan::key_text() const {
  std::vector<std::string> parts;
  for (const CacheDirectory& directory : directories) {
    if (directory.users_choice) parts.push_back(directory.framework->name + "=" + directory.path);
  }
  return join(parts, ",");
}

Decided<DirectoryPlan> plan_directories(const Json& pod, const Selection& selection,
                                        const std::vector<const Framework*>& frameworks) {
  return Planner(pod, selection).run(frameworks);
}

}  // namespace compilecache::webhook
