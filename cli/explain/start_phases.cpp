#include "cli/explain/start_phases.hpp"

#include <algorithm>
#include <string_view>

#include "api/names.hpp"
#include "base/duration.hpp"
#include "base/quantity.hpp"
#include "base/strings.hpp"
#include "cli/explain/engine_lines.hpp"
#include "cli/text/json_at.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr char kDefaultContainer[] = "kubectl.kubernetes.io/default-container";

int64_t milliseconds_between(WallTime from, WallTime to) {
  return std::chrono::duration_cast<milliseconds>(to - from).count();
}

json container_status(const json& pod, const char* list, const std::string& name) {
  const json& all = at(pod, list);
  if (!all.is_array()) return nullptr;
  for (const json& one : all) {
    if (text_in(one, "/name") == name && at(one, "/state").is_object()) return one;
  }
  return nullptr;
}

std::optional<WallTime> condition_time(const json& pod, const std::string& type) {
  const json& conditions = at(pod, "/status/conditions");
  if (!conditions.is_array()) return std::nullopt;
  for (const json& condition : conditions) {
    if (text_in(condition, "/type") == type && text_in(condition, "/status") == "True") {
      return time_in(condition, "/lastTransitionTime");
    }
  }
  return std::nullopt;
}

struct Pull {
  std::string image, container;
  int64_t milliseconds = 0;
  std::optional<WallTime> ended;
};

// The kubelet's `Successfully pulled image "vllm:2" in 15.9s (16.2s including waiting). Image ...`;
// with the waiting, which is for other pulls of the node.
std::optional<Pull> pull_of(const json& event) {
  constexpr std::string_view kPulled = "Successfully pulled image \"", kIn = "\" in ", kOpen = " (",
                             kWaiting = " including waiting)";
  if (text_in(event, "/reason") != "Pulled") return std::nullopt;
  const std::string message = text_in(event, "/message");
  const size_t in = message.find(kIn);
  if (!message.starts_with(kPulled) || in == std::string::npos) return std::nullopt;
  std::string_view time = std::string_view(message).substr(in + kIn.size());
  const size_t open = time.find(kOpen), waiting = time.find(kWaiting);
  if (open != std::string_view::npos && waiting != std::string_view::npos && open < waiting) {
    time = time.substr(open + kOpen.size(), waiting - open - kOpen.size());
  } else {
    time = time.substr(0, time.find(' '));
  }
  const auto took = parse_duration(time);
  if (!took) return std::nullopt;
  Pull pull{.image = message.substr(kPulled.size(), in - kPulled.size()),
            .milliseconds = took->count(),
            .ended = time_in(event, "/lastTimestamp")};
  if (!pull.ended) pull.ended = time_in(event, "/eventTime");
  // "spec.initContainers{compilecache-load}"
  const std::string field = text_in(event, "/involvedObject/fieldPath");
  const size_t brace = field.find('{');
  if (brace != std::string::npos && field.ends_with('}')) {
    pull.container = field.substr(brace + 1, field.size() - brace - 2);
  }
  return pull;
}

std::string wait_note(const std::string& reason) {
  if (reason == "waiting_for_first") return "for the pod that was compiling the same";
  if (reason == "too_many_loads") return "for its turn: maxConcurrentLoads";
  if (reason == "operator_unreachable") return "for an answer from the operator";
  if (reason == "gpu_product_unknown") return "for the node's GPU product label";
  if (reason == "device_not_published") return "for the ResourceSlice of its device";
  return "";
}

// The lines up to that time, without the times that the kubelet has put before them.
std::vector<std::string_view> lines_until(std::string_view log, std::optional<WallTime> end) {
  std::vector<std::string_view> lines;
  while (!log.empty()) {
    const size_t newline = log.find('\n');
    std::string_view line = log.substr(0, newline);
    log.remove_prefix(newline == std::string_view::npos ? log.size() : newline + 1);
    const size_t space = line.find(' ');
    const auto time = parse_time(line.substr(0, space));
    if (time && end && *time > *end) break;
    if (time) line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
    lines.push_back(line);
  }
  return lines;
}

class Timer {
 public:
  explicit Timer(const StartFacts& facts)
      : facts_(facts),
        application_(application_container(facts.pod, facts.injection)),
        created_(time_in(facts.pod, "/metadata/creationTimestamp")),
        scheduled_(condition_time(facts.pod, "PodScheduled")),
        started_(first_start(facts.pod, application_)),
        ready_(condition_time(facts.pod, "Ready")) {}

  StartTimes time() {
    find_pulls();
    between("schedule", created_, scheduled_, "until the pod had a node");
    facts_.injection ? tell_loader() : tell_plain_start();
    tell_ready();
    tell_untold();
    if (created_ && ready_ && *ready_ >= *created_) {
      times_.milliseconds = milliseconds_between(*created_, *ready_);
    }
    return std::move(times_);
  }

 private:
  void find_pulls() {
    const std::string uid = text_in(facts_.pod, "/metadata/uid");
    for (const json& event : facts_.events) {
      if (text_in(event, "/involvedObject/uid") != uid) continue;
      if (text_in(event, "/reason") == "Pulled") pulls_known_ = true;
      if (auto pull = pull_of(event)) pulls_.push_back(std::move(*pull));
    }
    std::stable_sort(pulls_.begin(), pulls_.end(),
                     [](const Pull& a, const Pull& b) { return a.ended < b.ended; });
  }

  void tell_plain_start() {
    if (between("start", scheduled_, started_,
                "volumes, images and what runs before the application's container")) {
      tell_sandbox("start");
      tell_pulls("start", scheduled_, started_);
    }
  }

  void tell_loader() {
    const auto [began, ended] = loader_times();
    if (between("prepare", scheduled_, began, "volumes and our image, until the loader started")) {
      tell_sandbox("prepare");
      tell_pulls("prepare", scheduled_, began);
    }
    tell_report();
    if (between("start", ended, started_, "until the application's container ran")) {
      tell_pulls("start", ended, started_);
    }
  }

  // Where a hook loads, only the report says how long that took.
  [[nodiscard]] std::pair<std::optional<WallTime>, std::optional<WallTime>> loader_times() const {
    const bool one = facts_.injection->one_container();
    const json loader = container_status(facts_.pod, "/status/initContainerStatuses",
                                         one ? api::kSaverContainer : api::kLoaderContainer);
    if (!one) {
      return {time_in(loader, "/state/terminated/startedAt"),
              time_in(loader, "/state/terminated/finishedAt")};
    }
    const bool first = loader.is_object() && at(loader, "/restartCount") == 0;
    const auto began = first ? time_in(loader, "/state/running/startedAt") : std::nullopt;
    if (!began || !facts_.recent) return {began, std::nullopt};
    return {began, *began + milliseconds(facts_.recent->milliseconds)};
  }

  void tell_report() {
    if (!facts_.recent) return;
    const api::RecentPod& recent = *facts_.recent;
    add("ask", recent.ask_milliseconds, "which archive is this pod's");
    if (recent.wait_milliseconds > 0) {
      add("wait", recent.wait_milliseconds, wait_note(recent.wait_reason));
    }
    const int64_t rest = std::max<int64_t>(
        0, recent.milliseconds - recent.ask_milliseconds - recent.wait_milliseconds);
    if (recent.archive.empty()) return add("go on cold", rest, "the rest of the loader's time");
    add("load", rest,
        format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, recent.bytes))) +
            " read, checked and written");
  }

  void tell_ready() {
    const bool is_told =
        between("ready", started_, ready_, "from the application's start until the pod was ready");
    const std::string within = is_told ? "ready" : "";
    if (is_told) tell_pulls(within, started_, ready_);
    const int64_t by_engine = tell_engine(within);
    if (!is_told || by_engine == 0) return;
    // An engine that does two things at once has no rest.
    const int64_t rest = milliseconds_between(*started_, *ready_) - by_engine;
    if (rest < 0) return;
    times_.phases.push_back({"other", rest / 1000 * 1000,
                             "what no known line of the log tells: processes, imports, downloads, "
                             "the probe",
                             true, within});
  }

  // Returns what the engine's log accounts for.
  int64_t tell_engine(const std::string& within) {
    // The condition's time is cut to the second.
    const auto end = ready_ ? std::optional(*ready_ + std::chrono::seconds(1)) : std::nullopt;
    std::vector<EngineTime> told;
    if (facts_.log && started_) {
      const auto lines = lines_until(*facts_.log, end);
      told = engine_times(lines);
      times_.kv_cache_tokens = kv_cache_tokens(lines);
    }
    engine_known_ = !told.empty();
    const bool compiled = std::any_of(
        told.begin(), told.end(), [](const EngineTime& time) { return time.phase == "compile"; });
    if (!compiled && facts_.recent && facts_.recent->compile_milliseconds > 0) {
      add("compile", facts_.recent->compile_milliseconds,
          "as far as the times of its new files tell", within);
    }
    int64_t sum = 0;
    for (const EngineTime& time : told) {
      add(time.phase, time.milliseconds, time.note, within);
      sum += time.milliseconds;
    }
    return sum;
  }

  void tell_sandbox(const std::string& within) {
    const auto made = condition_time(facts_.pod, "PodReadyToStartContainers");
    if (!made || !scheduled_ || *made < *scheduled_) return;
    const int64_t passed = milliseconds_between(*scheduled_, *made);
    if (passed > times_.phases.back().milliseconds) return;  // it was recreated later
    times_.phases.push_back({"sandbox", passed, "volumes and the pod's network", true, within});
  }

  // Those that ended in that time, at the earliest in its first second.
  void tell_pulls(const std::string& within, std::optional<WallTime> from,
                  std::optional<WallTime> to) {
    for (Pull& pull : pulls_) {
      if (pull.image.empty() || !pull.ended) continue;
      if (*pull.ended + std::chrono::seconds(1) <= *from || *pull.ended > *to) continue;
      add("pull", pull.milliseconds,
          "image " + pull.image + (pull.container.empty() ? "" : " of container " + pull.container),
          within);
      pull.image.clear();
    }
  }

  void tell_untold() {
    if (!scheduled_) return;
    if (facts_.events_unread) {
      times_.untold.push_back("pull: Events could not be read");
    } else if (!pulls_known_) {
      times_.untold.push_back(
          "pull: no Event of an image is left, which Kubernetes keeps for an hour");
    }
    if (!started_) {
      times_.untold.push_back(why_no_start());
    } else if (!engine_known_) {
      times_.untold.push_back("weights, compile, graph capture: " +
                              (facts_.log
                                   ? "the log of container " + application_ +
                                         " has no line that is known of " + known_engines()
                                   : "the log of container " + application_ + " was not read"));
    }
  }

  [[nodiscard]] std::string why_no_start() const {
    const json status = container_status(facts_.pod, "/status/containerStatuses", application_);
    if (at(status, "/restartCount").is_number() && at(status, "/restartCount") != 0) {
      return "start, ready: container " + application_ +
             " was started again, and the times of its first start are lost";
    }
    return "ready: container " + application_ + " has not started";
  }

  void add(const std::string& name, int64_t passed, const std::string& note,
           const std::string& within = "") {
    times_.phases.push_back({name, passed, note, false, within});
  }

  bool between(const std::string& name, std::optional<WallTime> from, std::optional<WallTime> to,
               const std::string& note) {
    if (!from || !to || *to < *from) return false;
    times_.phases.push_back({name, milliseconds_between(*from, *to), note, true, ""});
    return true;
  }

  const StartFacts& facts_;
  const std::string application_;
  const std::optional<WallTime> created_, scheduled_, started_, ready_;
  std::vector<Pull> pulls_;  // without its image: reported
  bool pulls_known_ = false, engine_known_ = false;
  StartTimes times_;
};

}  // namespace

StartTimes start_times(const StartFacts& facts) { return Timer(facts).time(); }

std::string application_container(const json& pod,
                                  const std::optional<api::InjectionStatus>& injection) {
  if (injection) return injection->containers.empty() ? "" : injection->containers.front();
  const json& annotations = at(pod, "/metadata/annotations");
  if (annotations.is_object() && annotations.contains(kDefaultContainer) &&
      annotations.at(kDefaultContainer).is_string()) {
    return annotations.at(kDefaultContainer);
  }
  return text_in(pod, "/spec/containers/0/name");
}

std::optional<WallTime> first_start(const json& pod, const std::string& container) {
  const json status = container_status(pod, "/status/containerStatuses", container);
  if (at(status, "/restartCount") != 0) return std::nullopt;
  const auto running = time_in(status, "/state/running/startedAt");
  return running ? running : time_in(status, "/state/terminated/startedAt");
}

}  // namespace compilecache::cli
