#include "cli/archives/tool_run.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/printable.hpp"
#include "base/random.hpp"
#include "base/release.hpp"
#include "cli/archives/tool_job.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kJobLook{1};
constexpr std::chrono::seconds kPodPatience{20};  // then a Job without a pod is worth a word
constexpr char kImageName[] = "docker.io/library/compilecache";

// The Job, for as long as it is needed.
class RunningJob {
 public:
  RunningJob(const Cluster& cluster, std::string name)
      : cluster_(cluster), name_(std::move(name)) {}
  ~RunningJob() {
    (void)cluster_.client.remove(kube::resources::kJobs, cluster_.ns, name_,
                                 {.propagation = "Background"});
  }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  // Nothing: there is none yet.
  Result<std::optional<ToolPod>> pod() const {
    const auto pods = cluster_.client.list(
        kube::resources::kPods,
        {.ns = cluster_.ns, .label_selector = "batch.kubernetes.io/job-name=" + name_});
    if (!pods) return unexpected(pods.error().with("reading the pod of Job " + name_));
    if (pods->at("items").empty()) return std::nullopt;
    return read_tool_pod(pods->at("items").front());
  }

  Result<std::string> log(const std::string& pod) const {
    auto text =
        cluster_.client.raw("GET", "/api/v1/namespaces/" + cluster_.ns + "/pods/" + pod + "/log");
    if (!text) return unexpected(text.error().with("reading the log of pod " + pod));
    return text;
  }

 private:
  const Cluster& cluster_;
  const std::string name_;
};

// Whether pods on several nodes can mount it; who may not read claims is not told.
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

}  // namespace

Result<ToolResult> run_tool(const Cluster& cluster, const ToolRun& run, std::ostream& out) {
  const std::string name = "compilecache-tool-" + random_id(system_random()).substr(0, 8);
  // Whoever may not list pods can say --image.
  const auto pods = cluster.client.list_all(kube::resources::kPods, {.ns = cluster.ns});
  ToolJobInput input{.name = name,
                     .volume = run.volume,
                     .image = run.image,
                     .arguments = run.arguments,
                     .node = pods && is_on_one_node(cluster, run.volume.claim)
                                 ? node_of_claim(*pods, run.volume.claim)
                                 : "",
                     .deadline = run.deadline};
  if (input.image.empty() && pods) input.image = agent_image_in(*pods);
  if (input.image.empty()) input.image = std::string(kImageName) + ":" + release();
  if (auto made = cluster.client.create(kube::resources::kJobs, tool_job(input)); !made) {
    return unexpected(made.error().with("making the Job " + cluster.ns + "/" + name));
  }
  const RunningJob job(cluster, name);
  Progress progress(out);
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < run.deadline) {
    const auto pod = job.pod();
    if (!pod) return unexpected(pod.error());
    if (*pod) progress.say((*pod)->trouble);
    if (*pod && (*pod)->exit_code) {
      auto log = job.log((*pod)->name);
      if (!log) return unexpected(log.error());
      return ToolResult{*(*pod)->exit_code, std::move(*log)};
    }
    if (!*pod && std::chrono::steady_clock::now() - begun > kPodPatience) {
      progress.say("Job " + name + " has no pod yet; kubectl describe job " + name + " -n " +
                   cluster.ns + " may say why");
    }
    (void)cluster.client.pause(kJobLook);
  }
  return fail(ErrorCode::kTimeout, "the Job " + cluster.ns + "/" + name + " did not end within " +
                                       std::to_string(run.deadline.count()) + " s" +
                                       (progress.last().empty() ? "" : ": " + progress.last()));
}

}  // namespace compilecache::cli
