// The operator has no right that it does not need. Each one that config/operator grants
// is taken away in turn, and something fails without it, by the API server's own words.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "kube/client.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/registry/token_authority.hpp"
#include "tests/integration/has_claims.hpp"
#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"

namespace compilecache::testing {
namespace {

using std::chrono::milliseconds;

const kube::Resource kServiceAccounts{"", "v1", "serviceaccounts", true};
const kube::Resource kRoles{"rbac.authorization.k8s.io", "v1", "roles", true};
const kube::Resource kRoleBindings{"rbac.authorization.k8s.io", "v1", "rolebindings", true};
const kube::Resource kClusterRoles{"rbac.authorization.k8s.io", "v1", "clusterroles", false};
const kube::Resource kClusterRoleBindings{"rbac.authorization.k8s.io", "v1", "clusterrolebindings",
                                          false};

// One verb on one resource: what a rule is made of.
struct Grant {
  bool cluster = true;  // of the ClusterRole
  std::string group, resource, verb;
  json resource_names;

  [[nodiscard]] std::string text() const {
    const bool is_one = resource == "secrets" && !resource_names.is_null();
    return verb + " " + resource + (is_one ? "/" + resource_names.at(0).get<std::string>() : "");
  }
  // As the API server says that it is missing.
  [[nodiscard]] std::string refusal() const {
    return "cannot " + verb + " resource \"" + resource + "\"";
  }
  [[nodiscard]] bool refused_in(std::string text) const {
    std::erase(text, '\\');  // logs and answers escape the quotes
    return text.find(refusal()) != std::string::npos;
  }
  [[nodiscard]] json rule() const {
    json rule = {{"apiGroups", {group}}, {"resources", {resource}}, {"verbs", {verb}}};
    if (!resource_names.is_null()) rule["resourceNames"] = resource_names;
    return rule;
  }
};

// Each of several Secrets is a right of its own.
std::vector<json> names_of(const json& rule, const json& resource) {
  const json names = rule.value("resourceNames", json());
  if (resource != "secrets" || names.is_null()) return {names};
  std::vector<json> each;
  for (const json& name : names) each.push_back(json::array({name}));
  return each;
}

void add_grants(std::vector<Grant>& grants, const std::string& kind, const std::string& name) {
  std::vector<std::string> get{kind, name};
  if (kind == "role") get.insert(get.end(), {"-n", kOperatorNamespace});
  const json role = read(get);
  for (const json& rule : role.at("rules")) {
    for (const json& resource : rule.at("resources")) {
      for (const json& verb : rule.at("verbs")) {
        for (const json& names : names_of(rule, resource)) {
          grants.push_back(
              {kind == "clusterrole", rule.at("apiGroups").at(0), resource, verb, names});
        }
      }
    }
  }
}

std::vector<Grant> read_grants() {
  std::vector<Grant> grants;
  add_grants(grants, "clusterrole", "compilecache-operator");
  add_grants(grants, "role", "compilecache-operator");
  add_grants(grants, "role", "compilecache-operator-certificates");
  return grants;
}

json rules_without(const std::vector<Grant>& grants, bool cluster,
                   const std::set<std::string>& not_these) {
  json rules = json::array();
  for (const Grant& grant : grants) {
    if (grant.cluster == cluster && !not_these.contains(grant.text()))
      rules.push_back(grant.rule());
  }
  return rules;
}

kube::Client administrator() {
  auto config = kube::load_config({});
  if (!config) throw std::runtime_error(config.error().message);
  auto transport = kube::make_transport(*config);
  if (!transport) throw std::runtime_error(transport.error().message);
  return kube::Client(*transport);
}

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

// An operator with a namespace, a service account and rights of its own.
struct Lane {
  Grant without;
  std::string ns, token;
  std::unique_ptr<OperatorProcess> process;
};

class RbacTest : public OperatorTest {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(install_operator(), "");
    make_node("node-h100", "NVIDIA-H100-80GB-HBM3");
    client = std::make_unique<kube::Client>(administrator());
    grants = read_grants();
    ASSERT_GT(grants.size(), 30u);
  }
  static void TearDownTestSuite() {
    process.reset();
    install_operator();  // with all rights, for the tests after this one
    client.reset();
  }

  void make_role(const kube::Resource& roles, const kube::Resource& bindings,
                 const std::string& name, const json& rules) const {
    const bool cluster = &roles == &kClusterRoles;
    json metadata = {{"name", name}};
    if (!cluster) metadata["namespace"] = name;
    must(client->create(roles, {{"apiVersion", roles.api_version()},
                                {"kind", cluster ? "ClusterRole" : "Role"},
                                {"metadata", metadata},
                                {"rules", rules}}));
    must(client->create(
        bindings,
        {{"apiVersion", bindings.api_version()},
         {"kind", cluster ? "ClusterRoleBinding" : "RoleBinding"},
         {"metadata", metadata},
         {"roleRef",
          {{"apiGroup", roles.group}, {"kind", cluster ? "ClusterRole" : "Role"}, {"name", name}}},
         {"subjects", json::array({{{"kind", "ServiceAccount"},
                                    {"name", "compilecache-operator"},
                                    {"namespace", name}}})}}));
  }

  // Objects that exist at the operator's start, so that it has something to change.
  void make_surroundings(const Lane& lane) const {
    const std::string& verb = lane.without.verb;
    const std::string& resource = lane.without.resource;
    if (resource == "secrets" && verb == "update") {  // certificates that have to be renewed
      must(client->create(
          kube::resources::kSecrets,
          {{"apiVersion", "v1"},
           {"kind", "Secret"},
           {"metadata", {{"name", "compilecache-certificates"}, {"namespace", lane.ns}}},
           {"stringData", {{"ca.crt", "old"}}}}));
    }
    if (resource == "endpointslices" && verb == "update") {  // of the previous leader
      must(client->create(kube::resources::kEndpointSlices,
                          {{"apiVersion", "discovery.k8s.io/v1"},
                           {"kind", "EndpointSlice"},
                           {"metadata", {{"name", api::kAgentService}, {"namespace", lane.ns}}},
                           {"addressType", "IPv4"},
                           {"endpoints", json::array({{{"addresses", {"10.9.9.9"}}}})}}));
    }
    const json service = {{"name", api::kWebhookService}, {"namespace", lane.ns}, {"path", "/"}};
    must(client->create(
        kube::resources::kMutatingWebhookConfigurations,
        {{"apiVersion", "admissionregistration.k8s.io/v1"},
         {"kind", "MutatingWebhookConfiguration"},
         {"metadata", {{"name", lane.ns}}},
         {"webhooks",
          json::array({{{"name", "pods.compilecache.dev"},
                        {"clientConfig", {{"service", service}}},
                        {"admissionReviewVersions", {"v1"}},
                        {"sideEffects", "None"},
                        {"failurePolicy", "Ignore"},
                        {"namespaceSelector", {{"matchLabels", {{"never", "matches"}}}}}}})}}));
  }

  Lane start_lane(const Grant& without, int number) const {
    Lane lane{without,
              "rbac-" + std::to_string(number) + "-" + random_id(system_random()).substr(0, 6), "",
              nullptr};
    must(client->create(
        kube::resources::kNamespaces,
        {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", lane.ns}}}}));
    must(client->create(
        kServiceAccounts,
        {{"apiVersion", "v1"},
         {"kind", "ServiceAccount"},
         {"metadata", {{"name", "compilecache-operator"}, {"namespace", lane.ns}}}}));
    json cluster_rules = rules_without(grants, true, {without.text()});
    for (json& rule : cluster_rules) {
      if (rule.at("resources").at(0) == "mutatingwebhookconfigurations") {
        rule["resourceNames"] = {lane.ns};
      }
    }
    make_role(kClusterRoles, kClusterRoleBindings, lane.ns, cluster_rules);
    make_role(kRoles, kRoleBindings, lane.ns, rules_without(grants, false, {without.text()}));
    make_surroundings(lane);
    if (more_surroundings) more_surroundings(lane);
    const json token = json::parse(
        must(client->raw("POST", kServiceAccounts.path(lane.ns, "compilecache-operator", "token"),
                         json{{"apiVersion", "authentication.k8s.io/v1"},
                              {"kind", "TokenRequest"},
                              {"spec", json::object()}}
                             .dump())));
    lane.token = at(token, "/status/token");
    lane.process = std::make_unique<OperatorProcess>(
        kSettings,
        OperatorProcessOptions{.ns = lane.ns,
                               .token = lane.token,
                               .webhook_configuration = lane.ns,
                               .agent_address = without.resource == "services" ? "" : "127.0.0.1",
                               .more_arguments = more_arguments});
    return lane;
  }

  // Starts an operator without each of these rights until it has failed for the want of it.
  void expect_each_missed(const std::vector<Grant>& left,
                          const std::function<bool(const Lane&)>& has_failed) const;

  void end_lane(Lane& lane) const {
    lane.process->send_signal(SIGKILL);
    lane.process->wait();
    must(client->remove(kube::resources::kMutatingWebhookConfigurations, "", lane.ns));
    must(client->remove(kClusterRoleBindings, "", lane.ns));
    must(client->remove(kClusterRoles, "", lane.ns));
    must(client->remove(kube::resources::kNamespaces, "", lane.ns));
  }

  // In lanes, for what is installed on demand.
  std::function<void(const Lane&)> more_surroundings;
  std::vector<std::string> more_arguments;
  static std::unique_ptr<kube::Client> client;
  static std::vector<Grant> grants;
};

std::unique_ptr<kube::Client> RbacTest::client;
std::vector<Grant> RbacTest::grants;

// The rights that an operator uses when it starts and leads.
const std::set<std::string> kUsedAtStart{
    "get namespaces",
    "get mutatingwebhookconfigurations",
    "patch mutatingwebhookconfigurations",
    "create leases",
    "get leases",
    "update leases",
    "create secrets",
    "get secrets/compilecache-certificates",
    "get secrets/compilecache-review-path",
    "update secrets/compilecache-certificates",
    "get services",
    "create endpointslices",
    "get endpointslices",
    "update endpointslices",
};
// Reflectors get the present objects by a watch where the API server can do that. These wait for
// one that cannot (Kubernetes 1.30 and 1.31 by default), which does not run here.
const std::set<std::string> kForOlderServers{
    "list compilecaches", "list persistentvolumeclaims", "list limitranges", "list resourcequotas",
    "list jobs",
};

bool is_used_at_start(const Grant& grant) {
  if (kForOlderServers.contains(grant.text())) return false;
  // Lists of archives are read again with every sweep, those of Events while a pod waits.
  if (grant.text() == "list resourceslices") return false;  // only for pods with resourceClaims
  if (grant.text() == "list compilecachearchives" || grant.text() == "list events") return false;
  return grant.verb == "list" || grant.verb == "watch" || kUsedAtStart.contains(grant.text());
}

// Several at a time, each in a namespace of its own.
void RbacTest::expect_each_missed(const std::vector<Grant>& left,
                                  const std::function<bool(const Lane&)>& has_failed) const {
  constexpr size_t kAtOnce = 8;
  std::vector<Lane> lanes;
  int number = 0;
  size_t next = 0;
  const auto end = std::chrono::steady_clock::now() + seconds(120);
  while (next < left.size() || !lanes.empty()) {
    while (next < left.size() && lanes.size() < kAtOnce)
      lanes.push_back(start_lane(left[next++], number++));
    for (Lane& lane : lanes) {
      const bool late = std::chrono::steady_clock::now() > end;
      if (!has_failed(lane) && !late) continue;
      EXPECT_TRUE(has_failed(lane)) << lane.without.text() << " is not missed\n"
                                    << lane.process->log();
      end_lane(lane);
      lane.process.reset();
    }
    std::erase_if(lanes, [](const Lane& lane) { return lane.process == nullptr; });
    std::this_thread::sleep_for(milliseconds(100));
  }
}

TEST_F(RbacTest, NothingThatAnOperatorNeedsToLeadCanBeTakenAway) {
  std::vector<Grant> left{{.verb = "nothing", .resource_names = json()}};
  for (const Grant& grant : grants) {
    if (is_used_at_start(grant)) left.push_back(grant);
  }
  expect_each_missed(left, [](const Lane& lane) {
    const std::string log = lane.process->log();
    if (lane.without.resource.empty()) return log.find("leading caches") != std::string::npos;
    return lane.without.refused_in(log);
  });
}

// With the rights of config/components/registry too.
class RegistryRbacTest : public RbacTest {
 protected:
  static void SetUpTestSuite() {
    RbacTest::SetUpTestSuite();
    const ProcessResult applied = kubectl({"apply", "-f", kRights});
    ASSERT_EQ(applied.exit_code, 0) << applied.err;
    add_grants(of_registry, "clusterrole", "compilecache-operator-registry");
    add_grants(of_registry, "role", "compilecache-operator-registry");
    grants.insert(grants.end(), of_registry.begin(), of_registry.end());
  }
  static void TearDownTestSuite() {
    kubectl({"delete", "-f", kRights, "--ignore-not-found"});
    of_registry.clear();
    RbacTest::TearDownTestSuite();
  }
  RegistryRbacTest() {
    more_arguments = {"--registry"};
    more_surroundings = [](const Lane& lane) { make_registry(lane.ns); };
  }

  // A registry of which nothing is as it should be: its certificate, whose tokens it accepts, an
  // authority that ends soon, and its pod. The reader was left scaled up.
  static void make_registry(const std::string& ns) {
    const auto authority = must(controller::make_token_authority(
        {.ca_life = std::chrono::hours(24 * 30)}, SystemClock::instance().wall()));
    make_secret(ns, "authority", "Opaque", controller::authority_entries(authority));
    make_secret(ns, "auth", "Opaque", {{"ca.crt", "old"}});
    make_secret(ns, "tls", "kubernetes.io/tls", {{"tls.crt", "old"}, {"tls.key", "old"}});
    make_deployment(ns, "compilecache-registry");
    make_deployment(ns, "compilecache-registry-reader");
  }
  static void make_deployment(const std::string& ns, const std::string& name) {
    const json labels = {{"app", name}};
    must(client->create(kube::resources::kDeployments,
                        {{"apiVersion", "apps/v1"},
                         {"kind", "Deployment"},
                         {"metadata", {{"name", name}, {"namespace", ns}}},
                         {"spec",
                          {{"selector", {{"matchLabels", labels}}},
                           {"template",
                            {{"metadata", {{"labels", labels}}},
                             {"spec",
                              {{"containers", json::array({{{"name", "registry"},
                                                            {"image", "registry:3"}}})}}}}}}}}));
  }
  static void make_secret(const std::string& ns, const std::string& name, const std::string& type,
                          const std::map<std::string, std::string>& entries) {
    must(client->create(
        kube::resources::kSecrets,
        {{"apiVersion", "v1"},
         {"kind", "Secret"},
         {"metadata", {{"name", "compilecache-registry-" + name}, {"namespace", ns}}},
         {"type", type},
         {"stringData", entries}}));
  }
  // The answer to a login.
  static std::string log_in(const Lane& lane) {
    try {
      return lane.process
          ->call("GET", "/v1/registry/token?service=registry&scope=repository:ml/a:pull",
                 lane.token, json())
          .second.dump();
    } catch (const std::exception&) {
      return "";  // it does not serve yet
    }
  }

  inline static const std::string kRights =
      testing::in_tree("config/components/registry/rbac.yaml");
  inline static std::vector<Grant> of_registry;
};

TEST_F(RegistryRbacTest, NothingThatTheRegistryNeedsCanBeTakenAway) {
  ASSERT_EQ(of_registry.size(), 9U)
      << "two for each of three Secrets, two for its Deployments, one for who logs in";
  expect_each_missed(of_registry, [](const Lane& lane) {
    if (lane.without.resource == "subjectaccessreviews")
      return lane.without.refused_in(log_in(lane));
    return lane.without.refused_in(lane.process->log());
  });
}

// Takes rights away from the operator that leads, and gives them back.
class WorkingRbacTest : public RbacTest {
 protected:
  static void SetUpTestSuite() {
    RbacTest::SetUpTestSuite();
    process = std::make_unique<OperatorProcess>(kSettings);
    ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }))
        << process->log();
  }

  static void allow_all_but(const std::set<std::string>& missing) {
    for (const bool cluster : {true, false}) {
      const json rules = {{"rules", rules_without(grants, cluster, missing)}};
      must(client->patch(cluster ? kClusterRoles : kRoles, cluster ? "" : kOperatorNamespace,
                         "compilecache-operator", kube::PatchType::kMerge, rules));
    }
  }

  // Does it again and again until the operator's log, or what it answers, tells of the missing
  // right. The authorizer learns of a change a moment later.
  void expect_missed(const std::string& text, const std::function<std::string()>& act) {
    const auto grant = std::find_if(grants.begin(), grants.end(),
                                    [&](const Grant& one) { return one.text() == text; });
    ASSERT_NE(grant, grants.end()) << "config/operator does not grant " << text;
    shown.insert(text);
    const size_t before = process->log().size();
    std::set<std::string> missing = always_missing;
    missing.insert(text);
    allow_all_but(missing);
    EXPECT_TRUE(eventually(seconds(20),
                           [&] {
                             return grant->refused_in(act()) ||
                                    grant->refused_in(process->log().substr(before));
                           }))
        << text << " is not missed\n"
        << process->log().substr(before);
    allow_all_but(always_missing);
  }

  std::string some_name(const std::string& prefix) { return prefix + std::to_string(++names); }
  // A new CompileCache on a claim of its own: Events, a look at its volume, a Job, a status.
  std::string act_on_new_cache() {
    const std::string name = some_name("cache");
    make_claim(ns, name);
    EXPECT_EQ(make_cache(name, {{"storage", {{"claimName", name}}}}), "");
    return "";
  }
  static std::string call(const std::string& path, const std::string& token, const json& body) {
    const auto [status, answer] = process->call("POST", path, token, body);
    return status == 200 ? "" : answer.dump();
  }

  std::set<std::string> always_missing, shown;
  int names = 0;
};

TEST_F(WorkingRbacTest, NothingThatALeaderNeedsToWorkCanBeTakenAway) {
  // Seen after the Job's pod has not appeared for ten seconds.
  always_missing = {"delete jobs"};
  allow_all_but(always_missing);
  make_claim(ns, "podless");
  ASSERT_EQ(make_cache("podless", {{"storage", {{"claimName", "podless"}}}}), "");
  ASSERT_TRUE(eventually(seconds(20), [&] { return !jobs("podless").empty(); }));
  const json podless = jobs("podless")[0];
  // As the Job controller says that Pod Security lets no pod of it through.
  ASSERT_EQ(apply({{"apiVersion", "v1"},
                   {"kind", "Event"},
                   {"metadata", {{"name", "refused"}, {"namespace", ns}}},
                   {"involvedObject",
                    {{"apiVersion", "batch/v1"},
                     {"kind", "Job"},
                     {"namespace", ns},
                     {"name", podless.at("metadata").at("name")},
                     {"uid", podless.at("metadata").at("uid")}}},
                   {"type", "Warning"},
                   {"reason", "FailedCreate"},
                   {"message", "Error creating: pods \"x\" is forbidden: violates PodSecurity"},
                   {"lastTimestamp", "2026-01-01T00:00:00Z"}}),
            "");
  make_ready_cache("app", {{"load", {{"timeout", "5s"}}}});
  const std::string web = run_pod("web", "app");
  const json save = {{"cache", "app"}, {"attempt", "a1"}, {"new_files", 1}};
  const json failed = {
      {"cache", "app"}, {"outcome", "ERROR"}, {"reason", "corrupt"}, {"message", "x"}};

  expect_missed("create tokenreviews", [&] { return call("/v1/load", web, {{"cache", "app"}}); });
  expect_missed("get compilecachearchives", [&] { return call("/v1/saves", web, save); });
  expect_missed("create compilecachearchives", [&] { return call("/v1/saves", web, save); });
  expect_missed("update compilecachearchives/status", [&] { return call("/v1/saves", web, save); });
  ASSERT_EQ(commit(web, granted(web, "app", "a2"), "one").first, 200);

  json stranger = plain_pod("stranger", "app");
  stranger["metadata"].erase("annotations");
  ASSERT_EQ(apply(stranger), "");
  const std::string unknown = pod_token(ns, "stranger");
  expect_missed("get pods", [&] { return call("/v1/load", unknown, {{"cache", "app"}}); });

  // A new pod with a ResourceClaim each time: what was read of one is remembered.
  const auto load_by_claim = [&] {
    const std::string name = some_name("claims");
    json pod = plain_pod(name, "app");
    pod["spec"]["containers"][0]["resources"] = {{"claims", json::array({{{"name", "gpu"}}})}};
    pod["spec"]["resourceClaims"] = json::array({{{"name", "gpu"}, {"resourceClaimName", "none"}}});
    const auto injected = process->injected(pod, ns);
    EXPECT_TRUE(injected);
    if (!injected) return std::string();
    EXPECT_EQ(apply(*injected), "");
    return call("/v1/load", pod_token(ns, name), {{"cache", "app"}});
  };
  const bool claims = !no_claims();
  for (const char* right : {"get resourceclaims", "list resourceslices"}) {
    if (claims) expect_missed(right, load_by_claim);
    shown.insert(right);
  }

  json waiting = plain_pod("waiting", "app");
  waiting = waiting.patch(json::parse(
      run_process({"base64", "-d"}, process->review(waiting, ns).at("patch").get<std::string>())
          .out));
  ASSERT_EQ(apply(waiting), "");  // and no kubelet reports what it waits for
  expect_missed("list events", [] { return std::string(); });
  kubectl({"delete", "pod", "waiting", "-n", ns, "--grace-period=0", "--force"});

  expect_missed("patch events", [&] { return call("/v1/loaded", web, failed); });
  expect_missed("create events", [&] { return act_on_new_cache(); });
  expect_missed("get persistentvolumes", [&] { return act_on_new_cache(); });
  // Messages for people are not in the log.
  expect_missed("create jobs", [&] {
    act_on_new_cache();
    return eventually(seconds(3),
                      [&] {
                        const json ready =
                            cache_condition(ns, "cache" + std::to_string(names), "Ready");
                        return ready.dump().find("cannot create resource") != std::string::npos;
                      })
               ? "cannot create resource \"jobs\""
               : "";
  });
  expect_missed("patch compilecaches/status", [&] { return act_on_new_cache(); });

  make_claim(ns, "swept");
  ASSERT_EQ(make_cache("swept", {{"storage", {{"claimName", "swept"}}}}), "");
  ASSERT_TRUE(eventually(seconds(20), [&] { return !jobs("swept").empty(); }));
  const std::string sweeper = pod_token(ns, make_sweep_pod(jobs("swept")[0]));
  expect_missed("list compilecachearchives", [&] {
    return call("/v1/sweeps", sweeper, {{"cache", "swept"}, {"phase", "begin"}});
  });

  kubectl({"delete", "pod", "web", "-n", ns, "--grace-period=0", "--force"});
  expect_missed("delete compilecachearchives", [&] {
    kubectl({"patch", "compilecache", "app", "-n", ns, "--type=merge", "-p",
             R"({"spec": {"retention": {"unusedFor": "1s"}}})"});
    return std::string();
  });
  shown.insert("delete jobs");
  EXPECT_TRUE(eventually(seconds(20), [&] {
    std::string log = process->log();
    std::erase(log, '\\');
    return log.find("cannot delete resource \"jobs\"") != std::string::npos;
  }));

  for (const Grant& grant : grants) {
    EXPECT_TRUE(is_used_at_start(grant) || shown.contains(grant.text()) ||
                kForOlderServers.contains(grant.text()))
        << grant.text() << " is not shown to be needed";
  }
  // With all rights back what failed is made good.
  allow_all_but({});
  EXPECT_TRUE(becomes("app", "Ready", "True"));
  EXPECT_TRUE(eventually(seconds(30), [&] {
    return read_list({"compilecachearchives", "-n", ns}).empty();
  })) << process->log();
  EXPECT_TRUE(becomes("cache" + std::to_string(names), "Reconciling", "True"));
}

}  // namespace
}  // namespace compilecache::testing
