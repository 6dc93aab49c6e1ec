#include "cli/explain/explain_command.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/strings.hpp"
#include "cli/cluster/cluster.hpp"
#include "cli/cluster/label_match.hpp"
#include "cli/cluster/plain_error.hpp"
#include "cli/explain/pod_reader.hpp"
#include "cli/explain/workload_story.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/json_at.hpp"
#include "cli/text/structured_output.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// Each pod may cost a request for its node, each timed one two more for Events and its log.
constexpr size_t kMostPods = 100, kTimedPods = 10;

template <typename Story>
void print_story(const Story& story, const std::string& output, std::ostream& out) {
  out << (output.empty() ? text_of(story) : structured(json_of(story), output));
}

// The pods that the workload's selector selects, the newest first.
Result<std::vector<json>> pods_of(const Cluster& cluster, const WorkloadName& workload) {
  const std::string named = workload.kind + " \"" + workload.name + "\"";
  const auto object = cluster.client.get(workload.resource, cluster.ns, workload.name);
  if (!object)
    return unexpected(not_read(object.error(), workload.kind, cluster.ns, workload.name));
  const std::string selector = selector_query(at(*object, "/spec/selector"));
  if (selector.empty()) {
    return fail(ErrorCode::kInvalid,
                named + " selects no pods by labels" +
                    (workload.kind == "CronJob" ? "; name one of its Jobs" : ""));
  }
  auto listed = cluster.client.list_all(kube::resources::kPods,
                                        {.ns = cluster.ns, .label_selector = selector});
  if (!listed) return unexpected(plain_error(listed.error()));
  auto pods = listed->at("items").get<std::vector<json>>();
  std::stable_sort(pods.begin(), pods.end(), [](const json& a, const json& b) {
    return text_in(a, "/metadata/creationTimestamp") > text_in(b, "/metadata/creationTimestamp");
  });
  return pods;
}

Result<WorkloadStory> read_workload(const Cluster& cluster, const WorkloadName& workload) {
  auto pods = pods_of(cluster, workload);
  if (!pods) return unexpected(pods.error());
  WorkloadFacts facts{.ns = cluster.ns,
                      .workload = workload.kind + "/" + workload.name,
                      .pods_in_all = static_cast<int64_t>(pods->size())};
  PodReader reader(cluster.client, cluster.ns);
  for (size_t i = 0; i < std::min(pods->size(), kMostPods); ++i) {
    const bool timed = i < kTimedPods;
    const auto depth = timed ? PodReader::Depth::kAll : PodReader::Depth::kWhy;
    facts.pods.push_back({tell_story(reader.facts_of(std::move((*pods)[i]), depth)), timed});
  }
  return tell_workload(facts);
}

}  // namespace

Result<Explained> explained(const std::vector<std::string>& words) {
  constexpr std::array kPod{"pod", "pods", "po"};
  const std::string name = join(words, "/");
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return Explained{name, {}};
  const bool is_pod = std::find(kPod.begin(), kPod.end(), name.substr(0, slash)) != kPod.end();
  if (is_pod && slash + 1 < name.size() && name.find('/', slash + 1) == std::string::npos) {
    return Explained{name.substr(slash + 1), {}};
  }
  auto workload = workload_named(name);
  if (!workload) return unexpected(workload.error());
  return Explained{"", std::move(*workload)};
}

int run_explain(const ExplainOptions& options, std::ostream& out, std::ostream& errors) {
  constexpr int kUnreadable = 1, kWrong = 2;
  const auto refuse = [&](const Error& error, int status) {
    return complain(error, errors, status);
  };
  const auto whom = explained(options.what);
  if (!whom) return refuse(whom.error(), kWrong);
  const auto cluster = connect({options.ns, options.kubeconfig, options.context});
  if (!cluster) return refuse(cluster.error(), kUnreadable);
  if (whom->workload) {
    const auto story = read_workload(*cluster, *whom->workload);
    if (!story) return refuse(story.error(), kUnreadable);
    print_story(*story, options.output, out);
    return 0;
  }
  const auto facts = PodReader(cluster->client, cluster->ns).read(whom->pod);
  if (!facts) return refuse(facts.error(), kUnreadable);
  print_story(tell_story(*facts), options.output, out);
  return 0;
}

}  // namespace compilecache::cli
