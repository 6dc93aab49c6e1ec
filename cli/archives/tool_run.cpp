#include "cli/archives/tool_run.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "base/random.hpp"
#include "base/release.hpp"
#include "cli/archives/tool_job.hpp"
#include "cli/cluster/plain_error.hpp"
#include "cli/cluster/undo.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kJobLook{1};
constexpr std::chrono::seconds kPodPatience{20};  // then a Job without a pod is worth a word

// The Job, for as long as it is needed.
class RunningJob {
 public:
  RunningJob(const Cluster& cluster, std::string name)
      : cluster_(cluster), name_(std::move(name)) {}
  ~RunningJob() { remove(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  // Nothing: there is none yet.
  Result<std::optional<ToolPod>> pod() const {
    const auto pods = cluster_.client.list(
        kube::resources::kPods,
        {.ns = cluster_.ns, .label_selector = "batch.kubernetes.io/job-name=" + name_});
    if (!pods) return unexpected(plain_error(pods.error()));
    if (pods->at("items").empty()) return std::nullopt;
    return read_tool_pod(pods->at("items").front());
  }

  Result<std::string> log(const std::string& pod) const {
    auto text =
        cluster_.client.raw("GET", "/api/v1/namespaces/" + cluster_.ns + "/pods/" + pod + "/log");
    if (!text) return unexpected(plain_error(text.error()));
    return text;
  }

 private:
  void remove() const {
    (void)cluster_.client.remove(kube::resources::kJobs, cluster_.ns, name_,
                                 {.propagation = "Background"});
  }

  const Cluster& cluster_;
  const std::string name_;
  const Undo undo_{[this] { remove(); }};
};

// Whether pods on several nodes can mount it; without the right to read claims it is unknown.
bool is_on_one_node(const Cluster& cluster, const std::string& claim) {
  const auto object =
      cluster.client.get(kube::resources::kPersistentVolumeClaims, cluster.ns, claim);
  if (!object) return false;
  for (const json& mode : object->value("/spec/accessModes"_json_pointer, json::array())) {
    if (mode == "ReadWriteMany" || mode == "ReadOnlyMany") return false;
  }
  return true;
}

class Progress {
 public:
  explicit Progress(std::ostream& out) : out_(out) {}
  void say(const std::string& text) {
    if (text.empty() || text == last_) return;
    out_ << printable(text) << "\n" << std::flush;
    last_ = text;
  }
  [[nodiscard]] const std::string& last() const { return last_; }

 private:
  std::ostream& out_;
  std::string last_;
};

Result<std::string> make_job(const Cluster& cluster, const ToolRun& run) {
  const std::string name = "compilecache-tool-" + random_id(system_random()).substr(0, 8);
  // Users who may not list pods can say --tool-image.
  const auto pods = cluster.client.list_all(kube::resources::kPods, {.ns = cluster.ns});
  ToolJobInput input{.name = name,
                     .volume = run.volume,
                     .image = run.image,
                     .arguments = run.arguments,
                     .node = pods && is_on_one_node(cluster, run.volume.claim)
                                 ? node_of_claim(*pods, run.volume.claim)
                                 : "",
                     .deadline = run.deadline,
                     .writes = run.writes,
                     .clears = run.clears};
  if (input.image.empty() && pods) input.image = agent_image_in(*pods);
  if (input.image.empty()) input.image = std::string(image_repository()) + ":" + release();
  if (auto made = cluster.client.create(kube::resources::kJobs, tool_job(input)); !made) {
    return unexpected(plain_error(made.error()));
  }
  return name;
}

// Until its pod is as wanted; kTimeout: not within the deadline.
template <typename IsWanted>
Result<ToolPod> wait_for(const Cluster& cluster, const RunningJob& job, const ToolRun& run,
                         std::ostream& out, const IsWanted& is_wanted) {
  Progress progress(out);
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < run.deadline) {
    auto pod = job.pod();
    if (!pod) return unexpected(pod.error());
    if (*pod) progress.say((*pod)->trouble);
    if (*pod && is_wanted(**pod)) return std::move(**pod);
    if (!*pod && std::chrono::steady_clock::now() - begun > kPodPatience) {
      progress.say("Job " + job.name() + " has no pod yet; kubectl describe job " + job.name() +
                   " -n " + cluster.ns + " may say why");
    }
    (void)cluster.client.pause(kJobLook);
  }
  return fail(ErrorCode::kTimeout, "the Job " + cluster.ns + "/" + job.name() +
                                       " was not ready within " + format_duration(run.deadline) +
                                       (progress.last().empty() ? "" : ": " + progress.last()));
}

}  // namespace

Result<ToolResult> run_tool(const Cluster& cluster, const ToolRun& run, std::ostream& out) {
  auto name = make_job(cluster, run);
  if (!name) return unexpected(name.error());
  const RunningJob job(cluster, *name);
  const auto pod = wait_for(cluster, job, run, out,
                            [](const ToolPod& one) { return one.exit_code.has_value(); });
  if (!pod) return unexpected(pod.error());
  auto log = job.log(pod->name);
  if (!log) return unexpected(log.error());
  return ToolResult{*pod->exit_code, std::move(*log)};
}

class WaitingTool::Job : public RunningJob {
  using RunningJob::RunningJob;
};

WaitingTool::WaitingTool(std::unique_ptr<Job> job, std::vector<std::string> prefix)
    : job_(std::move(job)), prefix_(std::move(prefix)) {}
WaitingTool::~WaitingTool() = default;
WaitingTool::WaitingTool(WaitingTool&&) noexcept = default;

Result<WaitingTool> WaitingTool::start(const Cluster& cluster, ToolRun run, std::ostream& out) {
  run.arguments.clear();
  auto name = make_job(cluster, run);
  if (!name) return unexpected(name.error());
  auto job = std::make_unique<Job>(cluster, *name);
  const auto pod = wait_for(cluster, *job, run, out, [](const ToolPod& one) {
    return one.running || one.exit_code.has_value();
  });
  if (!pod) return unexpected(pod.error());
  if (!pod->running) {
    return fail(ErrorCode::kIo, "the Job " + cluster.ns + "/" + *name + " ended at once" +
                                    (pod->trouble.empty() ? "" : ": " + pod->trouble));
  }
  return WaitingTool(std::move(job),
                     {"exec", "-i", pod->name, "-n", cluster.ns, "-c", kToolContainer, "--"});
}

std::vector<std::string> WaitingTool::exec(const std::vector<std::string>& command) const {
  std::vector<std::string> arguments = prefix_;
  arguments.insert(arguments.end(), command.begin(), command.end());
  return arguments;
}

}  // namespace compilecache::cli
