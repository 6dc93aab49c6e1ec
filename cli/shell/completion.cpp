#include "cli/shell/completion.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "cli/shell/option_values.hpp"

namespace compilecache::cli {
namespace {

// Cobra's bits.
constexpr int kNoSpace = 2, kNoFiles = 4;

struct Completion {
  std::vector<Candidate> candidates;
  int bits = kNoFiles;
};

constexpr const char* kWorkloadKinds[] = {"deployment", "statefulset", "daemonset", "replicaset",
                                          "job",        "cronjob",     "rollout"};

// The kind of name that an option or argument takes; nothing: it is not a name of the cluster.
std::optional<NameKind> kind_of(const std::string& name) {
  static const std::map<std::string, NameKind> kinds{
      {"--namespace", NameKind::kNamespace}, {"--operator-namespace", NameKind::kNamespace},
      {"--context", NameKind::kContext},     {"--to", NameKind::kCache},
      {"--gpu", NameKind::kGpuProduct},      {"CACHE", NameKind::kCache},
      {"CACHE/ARCHIVE", NameKind::kArchive}, {"CACHE|CACHE/ARCHIVE", NameKind::kArchive}};
  const auto found = kinds.find(name);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

bool takes_file(const std::string& name) {
  static const std::vector<std::string> files{"FILE",       "--filename", "--kubeconfig",
                                              "--authfile", "--ca-file",  "--agent-ca",
                                              "--cache",    "--settings", "--key"};
  return std::find(files.begin(), files.end(), name) != files.end();
}

// The words before the one to complete, as far as it depends on them.
class Line {
 public:
  Line(const CLI::App& command, const std::vector<std::string>& words) : command_(command) {
    for (const std::string& word : words) take(word);
  }

  // The option whose value comes next; null: none waits for one.
  [[nodiscard]] const CLI::Option* waiting() const { return waiting_; }
  [[nodiscard]] bool only_arguments() const { return only_arguments_; }
  [[nodiscard]] const ClusterOptions& cluster() const { return cluster_; }
  [[nodiscard]] bool has(const CLI::Option* option) const {
    return std::find(seen_.begin(), seen_.end(), option) != seen_.end();
  }

  // The argument that stands at the next place; null: there is none.
  [[nodiscard]] const CLI::Option* argument() const {
    int place = arguments_;
    for (const CLI::Option* option : command_.get_options()) {
      if (!option->get_positional()) continue;
      place -= std::min(option->get_items_expected_max(), place + 1);
      if (place < 0) return option;
    }
    return nullptr;
  }

  [[nodiscard]] const CLI::Option* option_of(const std::string& word) const {
    for (const CLI::Option* option : command_.get_options()) {
      const auto& names = word.starts_with("--") ? option->get_lnames() : option->get_snames();
      const std::string name = word.substr(word.starts_with("--") ? 2 : 1);
      if (std::find(names.begin(), names.end(), name) != names.end()) return option;
    }
    return nullptr;
  }

 private:
  void take(const std::string& word) {
    if (waiting_ != nullptr) {
      take_value(*waiting_, word);
      waiting_ = nullptr;
    } else if (only_arguments_ || word.size() < 2 || word.front() != '-') {
      ++arguments_;
    } else if (word == "--") {
      only_arguments_ = true;
    } else {
      take_option(word);
    }
  }

  void take_option(const std::string& word) {
    const size_t equals = word.find('=');
    const bool is_long = word.starts_with("--");
    const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
    const CLI::Option* option = option_of(name);
    if (option == nullptr) return;
    seen_.push_back(option);
    if (!takes_value(*option)) return;
    if (is_long && equals != std::string::npos) {
      take_value(*option, word.substr(equals + 1));
    } else if (word.size() > name.size()) {
      take_value(*option, word.substr(name.size()));
    } else {
      waiting_ = option;
    }
  }

  void take_value(const CLI::Option& option, const std::string& value) {
    if (option.check_lname("namespace")) cluster_.ns = value;
    if (option.check_lname("kubeconfig")) cluster_.kubeconfig = value;
    if (option.check_lname("context")) cluster_.context = value;
  }

  const CLI::App& command_;
  const CLI::Option* waiting_ = nullptr;
  bool only_arguments_ = false;
  int arguments_ = 0;
  std::vector<const CLI::Option*> seen_;
  ClusterOptions cluster_;
};

// "deployment/", or behind it the names of that kind.
Completion workloads(const std::string& start, const ClusterOptions& cluster,
                     const NameSource& names) {
  Completion all;
  const size_t slash = start.find('/');
  if (slash != std::string::npos) {
    const std::string kind = start.substr(0, slash);
    for (Candidate& one : names(NameKind::kWorkload, cluster, kind)) {
      all.candidates.push_back({kind + "/" + one.word, one.about});
    }
    return all;
  }
  all.bits |= kNoSpace;
  for (const char* kind : kWorkloadKinds) all.candidates.push_back({std::string(kind) + "/", ""});
  return all;
}

Completion pods_or_workloads(const std::string& start, const ClusterOptions& cluster,
                             const NameSource& names) {
  if (start.find('/') != std::string::npos) return workloads(start, cluster, names);
  Completion all{names(NameKind::kPod, cluster, "")};
  const auto begins = [&](const Candidate& one) { return one.word.starts_with(start); };
  // With the kinds a blank behind a pod's name is lost; they are asked for by their beginning.
  if (std::any_of(all.candidates.begin(), all.candidates.end(), begins)) return all;
  return workloads(start, cluster, names);
}

Completion values(const CLI::Option& option, const std::string& name, const std::string& start,
                  const ClusterOptions& cluster, const NameSource& names) {
  Completion all;
  for (std::string& choice : choices_of(option)) all.candidates.push_back({std::move(choice), ""});
  if (!all.candidates.empty()) return all;
  if (takes_file(name)) return {{}, 0};
  if (name == "POD|WORKLOAD") return pods_or_workloads(start, cluster, names);
  if (name == "WORKLOAD") return workloads(start, cluster, names);
  if (const auto kind = kind_of(name)) return {names(*kind, cluster, "")};
  return all;
}

Completion values(const CLI::Option& option, const std::string& start,
                  const ClusterOptions& cluster, const NameSource& names) {
  const bool is_argument = option.get_positional();
  const std::string name = is_argument || option.get_lnames().empty()
                               ? option.get_name(is_argument)
                               : "--" + option.get_lnames().front();
  return values(option, name, start, cluster, names);
}

Completion options(const CLI::App& command, const Line& line) {
  Completion all;
  for (const CLI::Option* option : command.get_options()) {
    const bool again = option->get_items_expected_max() > 1;
    if (option->get_lnames().empty() || (line.has(option) && !again)) continue;
    all.candidates.push_back({"--" + option->get_lnames().front(), option->get_description()});
  }
  return all;
}

Completion commands(const CLI::App& app) {
  Completion all;
  for (const CLI::App* one : app.get_subcommands({})) {
    if (!one->get_group().empty())
      all.candidates.push_back({one->get_name(), one->get_description()});
  }
  return all;
}

// Sets `start` to the part of the word that candidates begin with.
Completion candidates(const CLI::App& app, const std::vector<std::string>& words,
                      const NameSource& names, std::string& start) {
  if (words.size() < 2) {
    return start.starts_with('-') ? options(app, Line(app, {})) : commands(app);
  }
  const auto named =
      app.get_subcommands([&](const CLI::App* one) { return one->get_name() == words.front(); });
  if (named.empty()) return {};
  const CLI::App& command = *named.front();
  const Line line(command, {words.begin() + 1, words.end() - 1});
  if (line.waiting() != nullptr) return values(*line.waiting(), start, line.cluster(), names);
  const size_t equals = start.find('=');
  if (!line.only_arguments() && start.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = line.option_of(start.substr(0, equals));
    start.erase(0, equals + 1);
    return option == nullptr ? Completion{} : values(*option, start, line.cluster(), names);
  }
  if (!line.only_arguments() && start.starts_with('-')) return options(command, line);
  if (command.get_name() == "help") return commands(app);
  const CLI::Option* argument = line.argument();
  return argument == nullptr ? Completion{} : values(*argument, start, line.cluster(), names);
}

}  // namespace

std::string complete(const CLI::App& app, const std::vector<std::string>& words,
                     const NameSource& names) {
  std::string start = words.empty() ? "" : words.back();
  Completion found = candidates(app, words, names, start);
  std::sort(found.candidates.begin(), found.candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.word < b.word; });
  std::string text;
  for (const Candidate& one : found.candidates) {
    if (!one.word.starts_with(start)) continue;
    text += one.word + (one.about.empty() ? "" : "\t" + one.about) + "\n";
  }
  return text + ":" + std::to_string(found.bits) + "\n";
}

}  // namespace compilecache::cli
