#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "tests/support/dry_run.hpp"
#include "tests/support/parallel.hpp"
#include "tests/unit/webhook/golden_case.hpp"
#include "tests/unit/webhook/some_pod.hpp"

// Every golden case of the injection, and made-up pods, before a real API server. It accepts the
// injected pod wherever it accepted the plain one, at the same level of Pod Security
// and with the same QoS class. All by server-side dry run; a golden case whose plain pod it refuses
// fails.

namespace compilecache::webhook::testing {
namespace {

using compilecache::testing::in_parallel;
using compilecache::testing::Verdict;
using compilecache::testing::worsened;
using nlohmann::json;

kube::Client cluster() {
  const auto config = kube::load_config({});
  if (!config) throw std::runtime_error(config.error().message);
  return kube::Client(*kube::make_transport(*config));
}

std::unique_ptr<compilecache::testing::DryRun> dry_run;

// What golden pods name and a cluster has; from the moment on at which the API server's admission
// has seen it.
void make_classes() {
  const kube::Client client = cluster();
  const auto make = [&](const std::string& path, const json& object) {
    const auto made = client.raw("POST", path, object.dump());
    EXPECT_TRUE(made || made.error().code == ErrorCode::kAlreadyExists) << made.error().message;
  };
  make("/apis/scheduling.k8s.io/v1/priorityclasses", {{"apiVersion", "scheduling.k8s.io/v1"},
                                                      {"kind", "PriorityClass"},
                                                      {"metadata", {{"name", "high"}}},
                                                      {"value", 1000}});
  make("/apis/node.k8s.io/v1/runtimeclasses", {{"apiVersion", "node.k8s.io/v1"},
                                               {"kind", "RuntimeClass"},
                                               {"metadata", {{"name", "nvidia"}}},
                                               {"handler", "nvidia"}});
  const json pod{{"spec",
                  {{"priorityClassName", "high"},
                   {"runtimeClassName", "nvidia"},
                   {"containers", json::array({{{"name", "c"}, {"image", "i"}}})}}}};
  std::string refused = "not asked";
  for (int i = 0; i < 600 && !refused.empty(); ++i) {
    refused = dry_run->strictest(pod).message;
    if (!refused.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(refused, "");
}

class Environment : public ::testing::Environment {
 public:
  void SetUp() override {
    dry_run = std::make_unique<compilecache::testing::DryRun>(cluster());
    make_classes();
  }
  void TearDown() override { dry_run.reset(); }
};
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new Environment);

// A namespace with the case's LimitRanges and ResourceQuotas, known to the API server; "" where it
// has none. No controller counts here, so the quota's status is written too.
std::string namespace_of(const GoldenCase& golden, const std::string& name) {
  const auto facts = read_json(golden.folder + "/facts.json");
  if (!facts || (!facts->contains("limitRanges") && !facts->contains("quotas"))) return {};
  const kube::Client client = cluster();
  const std::string ns = dry_run->make_namespace(name);
  for (json range : facts->value("limitRanges", json::array())) {
    range["metadata"] = {{"namespace", ns}, {"name", "limits"}};
    const auto made = client.create(kube::resources::kLimitRanges, range);
    EXPECT_TRUE(made) << made.error().message;
  }
  for (json quota : facts->value("quotas", json::array())) {
    quota["metadata"] = {{"namespace", ns}, {"name", "quota"}};
    auto made = client.create(kube::resources::kResourceQuotas, quota);
    EXPECT_TRUE(made) << made.error().message;
    (*made)["status"] = quota.value("status", json::object());
    const auto counted = client.update_status(kube::resources::kResourceQuotas, *made);
    EXPECT_TRUE(counted) << counted.error().message;
  }
  return ns;
}

// Until the API server's admission has seen them: it fills in what such a container lacks, or
// refuses it. Where it does neither for any pod there is nothing to wait for.
void wait_for_rules(const std::string& ns) {
  const json much = {{"cpu", "900"}, {"memory", "9Ti"}, {"ephemeral-storage", "9Ti"}};
  for (int i = 0; i < 40; ++i) {
    const Verdict probe = dry_run->in_namespace(
        {{"spec",
          {{"containers",
            json::array({{{"name", "c"}, {"image", "i"}, {"resources", {{"requests", much}}}}})}}}},
        ns);
    if (!probe.accepted() || probe.pod["metadata"].contains("annotations")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// Whether the API server has kept every field of `part`: an older one drops what it does not know,
// before any webhook sees it.
bool keeps(const json& whole, const json& part) {
  if (part.is_object()) {
    return std::all_of(part.items().begin(), part.items().end(), [&](const auto& item) {
      return whole.contains(item.key()) && keeps(whole.at(item.key()), item.value());
    });
  }
  if (!part.is_array()) return true;
  if (!whole.is_array() || whole.size() < part.size()) return false;
  for (size_t i = 0; i < part.size(); ++i) {
    if (!keeps(whole[i], part[i])) return false;
  }
  return true;
}

struct Judged {
  Verdict before;
  std::vector<std::string> wrong;
  bool unknown = false;  // the API server does not know all of its fields: not asked
};

void expect_no_worse(Judged& judged, const GoldenCase& golden, const json& pod, const char* what) {
  const Injected result = golden.run(pod);
  if (!result.pod) return;
  const Verdict after = dry_run->again(*result.pod, judged.before);
  const std::string worse = worsened(judged.before, after);
  if (!worse.empty()) judged.wrong.push_back(what + worse);
  if (!after.accepted() || result.report.reason != api::InjectionReason::kInjected) return;
  // The API server's defaults are no reason to inject again.
  if (golden.run(after.pod).report.outcome != InjectionOutcome::kUnchanged) {
    judged.wrong.push_back(std::string(what) + "injected again");
  }
}

// A pod as a webhook gets to see it: with all defaults, and those of the namespace's LimitRange.
json seen_by_a_webhook(json pod) {
  pod.erase("status");
  for (const char* member : {"uid", "creationTimestamp", "managedFields", "generation"}) {
    pod["metadata"].erase(member);
  }
  return pod;
}

Judged judge(const GoldenCase& golden, const std::string& ns) {
  json pod = golden.pod;
  pod["spec"].erase("ephemeralContainers");  // they come later, to pods that are there
  Judged judged;
  const Verdict anywhere = dry_run->strictest(pod);
  judged.unknown = anywhere.accepted() && !keeps(anywhere.pod.at("spec"), pod.at("spec"));
  if (judged.unknown) return judged;
  judged.before = ns.empty() ? dry_run->strictest(pod) : dry_run->in_namespace(pod, ns);
  if (!judged.before.accepted()) {
    judged.wrong.push_back("the plain pod is refused, so nothing can be said: " +
                           judged.before.message);
    return judged;
  }
  expect_no_worse(judged, golden, pod, "as written: ");
  expect_no_worse(judged, golden, seen_by_a_webhook(judged.before.pod), "as admitted: ");
  return judged;
}

TEST(DryRun, EveryGoldenCaseIsAcceptedWhereverThePlainPodIs) {
  const std::vector<std::string> names = golden_case_names();
  std::vector<std::string> namespaces;
  for (const std::string& name : names) {
    namespaces.push_back(namespace_of(load_golden_case(name), name));
  }
  std::vector<Judged> judged(names.size());
  in_parallel(names.size(), [&](size_t i) {
    if (!namespaces[i].empty()) wait_for_rules(namespaces[i]);
    judged[i] = judge(load_golden_case(names[i]), namespaces[i]);
  });
  std::map<std::string, int> levels;
  size_t unknown = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    for (const std::string& wrong : judged[i].wrong) ADD_FAILURE() << names[i] << ": " << wrong;
    if (judged[i].unknown) {
      ++unknown;
      std::cout << names[i] << ": not asked, this API server drops a field of the pod\n";
      continue;
    }
    ++levels[judged[i].before.level];
  }
  EXPECT_LT(unknown, names.size() / 10);
  for (const char* level : {"restricted", "baseline", "privileged"}) {
    std::cout << levels[level] << " at level " << level << "\n";
    EXPECT_GT(levels[level], 0) << level;
  }
}

// The same pod with a volume for each mount, paths that differ, and what a pod as a whole can have.
json valid(json pod) {
  json& spec = pod["spec"];
  std::set<std::string> volumes;
  for (const json& volume : spec.value("volumes", json::array())) volumes.insert(volume["name"]);
  for (const char* list : {"containers", "initContainers"}) {
    for (json& container : spec[list].is_null() ? (spec[list] = json::array()) : spec[list]) {
      std::set<std::string> paths;
      json kept = json::array();
      for (const json& mount : container.value("volumeMounts", json::array())) {
        if (!paths.insert(mount["mountPath"]).second) continue;
        if (volumes.insert(mount["name"]).second) {
          spec["volumes"].push_back({{"name", mount["name"]}, {"emptyDir", json::object()}});
        }
        kept.push_back(mount);
      }
      container["volumeMounts"] = kept;
    }
  }
  const json resources = spec.value("resources", json::object());
  if (resources.contains("limits") && resources["limits"].contains("nvidia.com/gpu")) {
    spec.erase("resources");
  }
  spec.erase("resourceClaims");
  return pod;
}

TEST(DryRun, APodThatIsMadeUpIsAcceptedWhereverThePlainOneIs) {
  constexpr size_t kPods = 100;
  const GoldenCase golden = load_golden_case("deployment");
  const auto any_pod = rc::gen::exec([] { return valid(some_pod()); });
  std::vector<json> pods;
  for (size_t seed = 0; seed < kPods; ++seed) {
    pods.push_back(any_pod(rc::Random(seed), rc::kNominalSize).value());
  }
  std::atomic<int> compared{0};
  in_parallel(kPods, [&](size_t i) {
    const Injected result = golden.run(pods[i]);
    if (!result.pod) return;
    Judged judged{dry_run->strictest(pods[i]), {}};
    if (!judged.before.accepted()) return;
    ++compared;
    expect_no_worse(judged, golden, pods[i], "");
    for (const std::string& wrong : judged.wrong) ADD_FAILURE() << wrong << "\n" << pods[i];
  });
  std::cout << compared << " of " << kPods << " accepted and injected\n";
  EXPECT_GT(compared, 10);
}

}  // namespace
}  // namespace compilecache::webhook::testing
