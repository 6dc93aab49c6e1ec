#include "operator/settings/settings.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "base/duration.hpp"
#include "base/quantity.hpp"
#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kNone{0};

// Collects what is wrong, so that one start shows all of it.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}

  void add(const YAML::Mark& mark, const std::string& key, const std::string& what) {
    const std::string line = mark.is_null() ? "" : std::to_string(mark.line + 1) + ": ";
    lines_.push_back(file_ + ":" + line + (key.empty() ? "" : key + ": ") + what);
  }
  void add(const YAML::Node& node, const std::string& key, const std::string& what) {
    add(node.Mark(), key, what);
  }
  [[nodiscard]] bool empty() const { return lines_.empty(); }
  [[nodiscard]] std::string text() const { return join(lines_, "\n"); }

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

// What to do with the value of a key; `path` is the key's full name.
using Read =
    std::function<void(const YAML::Node& value, const std::string& path, Problems& problems)>;

struct Field {
  std::string name;
  Read read;
};

// Reads a mapping of known keys. A key without a value leaves the default.
void read_map(const YAML::Node& node, const std::string& path, Problems& problems,
              const std::vector<Field>& fields) {
  if (!node.IsMap()) {
    problems.add(node, path, "must be a mapping of keys to values");
    return;
  }
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    const std::string full = path.empty() ? key : path + "." + key;
    if (!seen.insert(key).second) {
      problems.add(entry.first, full, "is there twice; keep one");
      continue;
    }
    const Field* found = nullptr;
    std::vector<std::string> names;
    for (const Field& field : fields) {
      names.push_back(field.name);
      if (field.name == key) found = &field;
    }
    if (found == nullptr) {
      problems.add(entry.first, full, "is no setting; there are " + join(names, ", "));
    } else if (!entry.second.IsNull()) {
      found->read(entry.second, full, problems);
    }
  }
}

Read text(std::string& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsScalar()) return problems.add(node, path, "must be a text");
    target = node.Scalar();
  };
}

Read flag(bool& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    const std::string value = node.IsScalar() ? node.Scalar() : "";
    if (value != "true" && value != "false") {
      return problems.add(node, path, "must be true or false");
    }
    target = value == "true";
  };
}

Read number(int& target, int low, int high) {
  return [&target, low, high](const YAML::Node& node, const std::string& path, Problems& problems) {
    const std::string range = "allowed " + std::to_string(low) + " to " + std::to_string(high);
    long long value = 0;
    if (!node.IsScalar() || !YAML::convert<long long>::decode(node, value)) {
      return problems.add(node, path, "must be a whole number, " + range);
    }
    if (value < low || value > high) {
      return problems.add(node, path, std::to_string(value) + " is out of range, " + range);
    }
    target = static_cast<int>(value);
  };
}

Read duration(milliseconds& target, milliseconds low, milliseconds high) {
  return [&target, low, high](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsScalar()) return problems.add(node, path, "must be a duration like 30s");
    const auto parsed = parse_duration(node.Scalar());
    if (!parsed) return problems.add(node, path, parsed.error().message);
    if (*parsed < low || *parsed > high) {
      return problems.add(node, path,
                          node.Scalar() + " is out of range, allowed " + format_duration(low) +
                              " to " + format_duration(high));
    }
    target = *parsed;
  };
}

Read bytes(uint64_t& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsScalar()) return problems.add(node, path, "must be a quantity like 5Gi");
    const auto parsed = parse_bytes(node.Scalar());
    if (!parsed) return problems.add(node, path, parsed.error().message);
    target = *parsed;
  };
}

Read texts(std::vector<std::string>& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsSequence()) return problems.add(node, path, "must be a list of texts");
    std::vector<std::string> values;
    for (const YAML::Node& item : node) {
      if (!item.IsScalar() || item.Scalar().empty()) {
        problems.add(item, path, "every entry must be a text that is not empty");
        continue;
      }
      values.push_back(item.Scalar());
    }
    target = std::move(values);
  };
}

Read text_map(std::map<std::string, std::string>& target,
              std::function<std::string(const std::string&)> objection = {}) {
  return [&target, objection](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsMap()) return problems.add(node, path, "must be a mapping of names to texts");
    std::map<std::string, std::string> values;
    for (const auto& entry : node) {
      const std::string full = path + "." + entry.first.Scalar();
      if (!entry.second.IsScalar()) {
        problems.add(entry.second, full, "must be a text");
        continue;
      }
      const std::string what = objection ? objection(entry.second.Scalar()) : "";
      if (!what.empty()) problems.add(entry.second, full, what);
      if (!values.emplace(entry.first.Scalar(), entry.second.Scalar()).second) {
        problems.add(entry.first, full, "is there twice; keep one");
      }
    }
    target = std::move(values);
  };
}

Read quantities(std::map<std::string, std::string>& target) {
  return text_map(target, [](const std::string& value) {
    const auto parsed = parse_quantity_milli(value);
    return parsed ? std::string() : parsed.error().message;
  });
}

Read nested(std::function<std::vector<Field>()> fields) {
  return [fields](const YAML::Node& node, const std::string& path, Problems& problems) {
    read_map(node, path, problems, fields());
  };
}

Read container(ContainerResources& target) {
  return nested([&target]() -> std::vector<Field> {
    return {{"requests", quantities(target.requests)}, {"limits", quantities(target.limits)}};
  });
}

Read completions(std::vector<frameworks::Framework::Completion>& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsSequence()) return problems.add(node, path, "must be a list");
    target.clear();
    for (const YAML::Node& item : node) {
      frameworks::Framework::Completion completion;
      read_map(item, path, problems,
               {{"directory", text(completion.directory)}, {"marker", text(completion.marker)}});
      if (completion.directory.empty() || completion.marker.empty()) {
        problems.add(item, path, "needs a directory and a marker");
      }
      target.push_back(std::move(completion));
    }
  };
}

Read start_kit(std::map<std::string, frameworks::Framework::KitVariable>& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsMap()) return problems.add(node, path, "must be a mapping of variables");
    for (const auto& entry : node) {
      const std::string name = entry.first.Scalar();
      auto& variable = target[name];
      read_map(entry.second, path + "." + name, problems,
               {{"value", text(variable.value)},
                {"since", text(variable.since)},
                {"brings", text(variable.brings)}});
      if (variable.value.empty() || variable.since.empty() || variable.brings.empty()) {
        problems.add(entry.second, path + "." + name,
                     "needs a value, since which release it is known, and what it brings");
      }
    }
  };
}

bool is_framework_name(const std::string& name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-";
  return !name.empty() && name.size() <= 32 && name.front() != '-' && name.back() != '-' &&
         name.find_first_not_of(kAllowed) == std::string::npos;
}

void read_framework(const YAML::Node& node, const std::string& path, Problems& problems,
                    frameworks::Framework& target) {
  read_map(node, path, problems,
           {{"env", text_map(target.env)},
            {"redisEnv", text_map(target.redis_env)},
            {"coldEnv", text_map(target.cold_env)},
            {"startKit", start_kit(target.start_kit)},
            {"directoryVariable", text(target.directory_variable)},
            {"onlyIfUnset", flag(target.only_if_unset)},
            {"partOf", texts(target.part_of)},
            {"entryDirectories", texts(target.entry_directories)},
            {"entryFiles", texts(target.entry_files)},
            {"derivedFiles", texts(target.derived_files)},
            {"notCompiled", texts(target.not_compiled)},
            {"namedByContent", texts(target.named_by_content)},
            {"rankDirectories", texts(target.rank_directories)},
            {"neverPack", texts(target.never_pack)},
            {"temporary", texts(target.temporary)},
            {"buildDirectories", texts(target.build_directories)},
            {"completions", completions(target.completions)},
            {"elfFiles", texts(target.elf_files)},
            {"indexFiles", texts(target.index_files)},
            {"onlyFromWarm", texts(target.only_from_warm)},
            {"mustAgree", texts(target.must_agree)},
            {"streamFiles", texts(target.stream_files)},
            {"unitDirectories", texts(target.unit_directories)},
            {"portableFiles", texts(target.portable_files)},
            {"cpuVariables", texts(target.cpu_variables)},
            {"keyFactors", texts(target.key_factors)},
            {"keyParts", texts(target.key_parts)}});
  if (!target.directory_variable.empty() && !target.env.contains(target.directory_variable)) {
    problems.add(node, path + ".directoryVariable",
                 target.directory_variable + " must also be among the variables of env");
  }
  if (target.only_if_unset && target.directory_variable.empty()) {
    problems.add(node["onlyIfUnset"], path + ".onlyIfUnset", "needs a directoryVariable");
  }
}

Read framework_map(std::map<std::string, frameworks::Framework>& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsMap()) return problems.add(node, path, "must be a mapping of names to frameworks");
    for (const auto& entry : node) {
      const std::string name = entry.first.Scalar();
      if (!is_framework_name(name)) {
        problems.add(entry.first, path + "." + name,
                     "a framework's name has 1 to 32 lower-case letters, digits and '-'");
      }
      if (target.contains(name)) {
        problems.add(entry.first, path + "." + name, "is there twice; keep one");
      }
      frameworks::Framework& framework = target[name];
      framework.name = name;
      read_framework(entry.second, path + "." + name, problems, framework);
    }
  };
}

void read_trap(const YAML::Node& node, const std::string& path, Problems& problems,
               frameworks::Trap& target) {
  read_map(node, path, problems,
           {{"frameworks", texts(target.frameworks)},
            {"unlessFrameworks", texts(target.unless_frameworks)},
            {"images", texts(target.images)},
            {"words", texts(target.words)},
            {"variables", texts(target.variables)},
            {"variablesOfPod", texts(target.variables_of_pod)},
            {"numberedUser", flag(target.numbered_user)},
            {"unlessVariables", texts(target.unless_variables)},
            {"warning", text(target.warning)}});
  if (target.frameworks.empty()) {
    problems.add(node, path + ".frameworks", "say for which frameworks it matters");
  }
  if (target.images.empty() && target.words.empty() && target.variables.empty() &&
      target.variables_of_pod.empty() && !target.numbered_user) {
    problems.add(node, path,
                 "is recognised by nothing; give it images, words, variables, variablesOfPod or "
                 "numberedUser");
  }
  if (target.warning.empty() || target.warning.size() > frameworks::kLongestTrapWarning) {
    problems.add(node["warning"] ? node["warning"] : node, path + ".warning",
                 "must have 1 to " + std::to_string(frameworks::kLongestTrapWarning) +
                     " characters, as more does not reach the user");
  }
}

Read trap_list(std::vector<frameworks::Trap>& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsMap()) return problems.add(node, path, "must be a mapping of names to traps");
    for (const auto& entry : node) {
      frameworks::Trap trap;
      trap.name = entry.first.Scalar();
      if (std::any_of(target.begin(), target.end(),
                      [&](const frameworks::Trap& other) { return other.name == trap.name; })) {
        problems.add(entry.first, path + "." + trap.name, "is there twice; keep one");
      }
      read_trap(entry.second, path + "." + trap.name, problems, trap);
      target.push_back(std::move(trap));
    }
  };
}

Read device_drivers(std::map<std::string, api::DeviceDriver>& target) {
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    if (!node.IsMap()) return problems.add(node, path, "must be a mapping of names to drivers");
    for (const auto& entry : node) {
      const std::string name = entry.first.Scalar();
      if (target.contains(name)) {
        problems.add(entry.first, path + "." + name, "is there twice; keep one");
      }
      api::DeviceDriver& driver = target[name];
      read_map(entry.second, path + "." + name, problems,
               {{"product", text(driver.product)},
                {"driverVersion", text(driver.driver_version)},
                {"profile", text(driver.profile)},
                {"profilePrefix", text(driver.profile_prefix)},
                {"wholeTypes", texts(driver.whole_types)},
                {"blank", text(driver.blank)}});
      if (driver.product.empty()) {
        problems.add(entry.second, path + "." + name + ".product",
                     "say which attribute names the product");
      }
    }
  };
}

Read certificate_lives(Settings::CertificateLives& target) {
  using std::chrono::hours;
  using std::chrono::seconds;
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    read_map(node, path, problems,
             {{"authorityLife", duration(target.authority_life, seconds(32), hours(24 * 36'500))},
              {"leafLife", duration(target.leaf_life, seconds(4), hours(24 * 3'650))}});
    if (target.leaf_life > target.authority_life / 8) {
      problems.add(node, path + ".leafLife", "must be at most an eighth of authorityLife");
    }
  };
}

Read own_registry(Settings::Registry& target) {
  using std::chrono::hours;
  using std::chrono::seconds;
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    read_map(node, path, problems,
             {{"enabled", flag(target.enabled)},
              {"namespaceShare", bytes(target.namespace_share)},
              {"collectAbove", bytes(target.collect_above)},
              {"collectInterval", duration(target.collect_interval, hours(1), hours(24 * 365))},
              {"quietFor", duration(target.quiet_for, seconds(1), hours(24))},
              {"collectWithin", duration(target.collect_within, seconds(0), hours(24 * 7))},
              {"checkInterval", duration(target.check_interval, seconds(10), hours(24))},
              {"keepDeleted", duration(target.keep_deleted, seconds(0), hours(24 * 365))}});
  };
}

Read breaker_rules(Settings::Breaker& target) {
  using std::chrono::hours;
  using std::chrono::minutes;
  using std::chrono::seconds;
  return [&target](const YAML::Node& node, const std::string& path, Problems& problems) {
    read_map(node, path, problems,
             {{"patience", duration(target.patience, seconds(1), minutes(30))},
              {"oneNode", duration(target.one_node, seconds(1), hours(24))},
              {"window", duration(target.window, seconds(1), hours(24))},
              {"sharePercent", number(target.share_percent, 1, 100)},
              {"pause", duration(target.pause, seconds(1), hours(24))},
              {"longestPause", duration(target.longest_pause, seconds(1), hours(24 * 7))},
              {"replaceInterval", duration(target.replace_interval, seconds(1), hours(1))}});
    if (target.one_node < target.patience) {
      problems.add(node, path + ".oneNode", "must be at least patience");
    }
    if (target.longest_pause < target.pause) {
      problems.add(node, path + ".longestPause", "must be at least pause");
    }
  };
}

// Names of frameworks can only be looked up when all are read.
void check_framework_names(const YAML::Node& root, const Settings& settings, Problems& problems) {
  for (const auto& [section, keys] :
       {std::pair<std::string, std::vector<std::string>>{"frameworks", {"partOf"}},
        {"traps", {"frameworks", "unlessFrameworks"}}}) {
    const YAML::Node entries = root[section];
    if (!entries || !entries.IsMap()) continue;
    for (const auto& entry : entries) {
      for (const std::string& key : keys) {
        if (!entry.second.IsMap() || !entry.second[key].IsDefined()) continue;
        for (const YAML::Node& name : entry.second[key]) {
          if (!name.IsScalar() || settings.frameworks.contains(name.Scalar())) continue;
          problems.add(name, section + "." + entry.first.Scalar() + "." + key,
                       "\"" + name.Scalar() + "\" is none of the frameworks here");
        }
      }
    }
  }
}

std::vector<Field> fields_of(Settings& s) {
  using std::chrono::hours;
  using std::chrono::minutes;
  using std::chrono::seconds;
  return {
      {"agentImage", text(s.agent_image)},
      {"gpuProductLabels", texts(s.node_labels.gpu_product)},
      {"driverVersionLabels", texts(s.node_labels.driver_version)},
      {"cpuFeatureLabels", texts(s.node_labels.cpu_features)},
      {"deviceDrivers", device_drivers(s.device_drivers)},
      {"gpuResources", texts(s.gpu_resources)},
      {"harmlessResources", texts(s.harmless_resources)},
      {"limits", nested([&s]() -> std::vector<Field> {
         return {{"maxConcurrentSaves", number(s.limits.max_concurrent_saves, 1, 10'000)},
                 {"maxConcurrentLoads", number(s.limits.max_concurrent_loads, 1, 10'000)},
                 {"recentPods", number(s.limits.recent_pods, 1, 256)},
                 {"apiThreads", number(s.limits.api_threads, 1, 256)},
                 {"webhookThreads", number(s.limits.webhook_threads, 2, 64)}};
       })},
      {"agent", nested([&s]() -> std::vector<Field> {
         return {{"indexFallback", flag(s.agent.index_fallback)},
                 {"address", text(s.agent.address)},
                 {"port", number(s.agent.port, 1, 65'535)},
                 {"labelWait", duration(s.agent.label_wait, kNone, minutes(10))},
                 {"unheardAfter", duration(s.agent.unheard_after, seconds(1), hours(1))},
                 {"unheardPods", number(s.agent.unheard_pods, 1, 1000)}};
       })},
      {"save", nested([&s]() -> std::vector<Field> {
         return {{"firstQuietPeriod", duration(s.save.first_quiet_period, seconds(1), hours(24))}};
       })},
      {"resources", nested([&s]() -> std::vector<Field> {
         return {{"loader", container(s.resources.loader)},
                 {"saver", container(s.resources.saver)},
                 {"sweep", container(s.resources.sweep)}};
       })},
      {"sweep", nested([&s]() -> std::vector<Field> {
         return {{"grace", duration(s.sweep.grace, kNone, hours(24 * 30))},
                 {"ttlAfterFinished", duration(s.sweep.ttl_after_finished, kNone, hours(24))},
                 {"deadline", duration(s.sweep.deadline, minutes(1), hours(24))},
                 {"minInterval", duration(s.sweep.min_interval, seconds(1), hours(1))}};
       })},
      {"breaker", breaker_rules(s.breaker)},
      {"certificates", certificate_lives(s.certificates)},
      {"registry", own_registry(s.registry)},
      {"statusInterval", duration(s.status_interval, milliseconds(100), minutes(10))},
      {"tokenCache", duration(s.token_cache, kNone, minutes(5))},
      {"frameworks", framework_map(s.frameworks)},
      {"traps", trap_list(s.traps)},
  };
}

}  // namespace

Result<Settings> parse_settings(const std::string& text, const std::string& file_name) {
  Problems problems(file_name);
  Settings settings;
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsNull()) read_map(root, "", problems, fields_of(settings));
    if (root.IsMap()) check_framework_names(root, settings, problems);
  } catch (const YAML::Exception& e) {
    problems.add(e.mark, "", e.msg);
  }
  if (!problems.empty()) return fail(ErrorCode::kInvalid, problems.text());
  return settings;
}

Result<Settings> load_settings(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    Error error = errno_error("reading the settings from " + path, errno);
    error.message += "; name another file with --settings";
    return unexpected(error);
  }
  return parse_settings(text.str(), path);
}

}  // namespace compilecache::controller
