// `kubectl compilecache doctor`: each check, and the command on an API server that is played.

#include <gmock/gmock.h>

#include <sstream>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/release.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/doctor_command.hpp"
#include "cli/text/shipped_settings.hpp"
#include "operator/certificates/x509.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/unit/cli/kubeconfig_file.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::fake_status;
using testing::FakeApiServer;
using testing::FakeConnection;
using testing::FakeRequest;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const WallTime kDoctorNow = WallTime(std::chrono::hours(24 * 365 * 56));

auto finds(Level level, const std::string& text) {
  return Contains(AllOf(Field(&Finding::level, level), Field(&Finding::text, HasSubstr(text))));
}
auto all_ok() { return Each(Field(&Finding::level, Level::kOk)); }
tl::unexpected<Error> forbidden() { return fail(ErrorCode::kForbidden, "no"); }
tl::unexpected<Error> missing() { return fail(ErrorCode::kNotFound, "not found"); }

std::string certificate(std::chrono::hours left, std::chrono::hours life) {
  const auto made = controller::issue_certificate(
      {.common_name = "ca", .not_before = kDoctorNow + left - life, .not_after = kDoctorNow + left},
      {});
  return base64_encode(made->certificate);
}

json webhook_list(const std::string& bundle) {
  return json::array(
      {{{"metadata", {{"name", "compilecache"}}},
        {"webhooks",
         {{{"name", "pods.compilecache.dev"},
           {"failurePolicy", "Ignore"},
           {"clientConfig",
            {{"caBundle", bundle},
             {"service", {{"name", "compilecache-webhook"}, {"namespace", "cc"}}}}}}}}}});
}

json doctor_cache(const std::string& ready, const json& storage = json::object()) {
  return {
      {"apiVersion", api::kApiVersion},
      {"kind", "CompileCache"},
      {"metadata", {{"name", "llama"}, {"namespace", "ml"}}},
      {"spec", {{"storage", storage}}},
      {"status",
       {{"conditions", json::array({{{"type", "StorageReady"}, {"status", ready}, {"reason", "R"}},
                                    {{"type", "Ready"}, {"status", ready}, {"reason", "R"}}})}}}};
}

json gpu_node(const json& labels) {
  return {{"metadata", {{"name", "gpu-1"}, {"labels", labels}}},
          {"status",
           {{"allocatable", {{"nvidia.com/gpu", "8"}}},
            {"nodeInfo", {{"kubeletVersion", "v1.35.1"}}}}}};
}

json operator_deployment(int ready, const std::string& tag) {
  return {{"metadata", {{"name", "compilecache-operator"}, {"namespace", "cc"}}},
          {"spec",
           {{"replicas", 2},
            {"template", {{"spec", {{"containers", {{{"image", "r.example/cc:" + tag}}}}}}}}}},
          {"status", {{"readyReplicas", ready}}}};
}

// An installation of which everything is as it should be.
ClusterFacts healthy() {
  ClusterFacts facts;
  facts.ns = "ml";
  facts.operator_ns = "cc";
  facts.now = kDoctorNow;
  facts.plugin_version = "0.2.0";
  facts.settings = *controller::parse_settings(shipped_settings(), "the settings");
  facts.server = json{{"gitVersion", "v1.35.1"}, {"minor", "35+"}};
  facts.group = json{{"versions", {{{"version", "v1alpha1"}}}}};
  facts.operators = json::array({operator_deployment(2, "0.2.0")});
  const std::string good = certificate(std::chrono::hours(2000), std::chrono::hours(2400));
  facts.webhooks = webhook_list(good);
  facts.endpoints = json::array({{{"endpoints", {{{"conditions", {{"ready", true}}}}}}}});
  facts.certificates = json{{"data", {{"tls.crt", good}}}};
  facts.nodes = json::array({gpu_node({{"nvidia.com/gpu.product", "H100"}})});
  facts.storage_classes = json::array(
      {{{"metadata",
         {{"name", "fast"},
          {"annotations", {{"storageclass.kubernetes.io/is-default-class", "true"}}}}}}});
  facts.claims = facts.network_policies = facts.limit_ranges = facts.quotas = json::array();
  facts.caches = json::array({doctor_cache("True")});
  facts.registry_service = json::object();
  facts.registry_deployment = json{{"status", {{"readyReplicas", 1}}}};
  facts.tried =
      TriedPod{json{{"metadata", {{"annotations", {{api::kStatusAnnotation, "{}"}}}}}}, true};
  return facts;
}

TEST(Doctor, FindsNothingWrongWhereNothingIs) {
  const Findings findings = check_all(healthy());
  EXPECT_THAT(findings, all_ok());
  EXPECT_FALSE(any_failed(findings));
  EXPECT_THAT(text_of(findings), HasSubstr("ok    api-server    Kubernetes v1.35.1\n"));
  EXPECT_THAT(text_of(findings), HasSubstr(" ok, 0 warnings, 0 failures, 0 not checked\n"));
}

TEST(Doctor, VersionsThatAreTooOldOrDiffer) {
  ClusterFacts facts = healthy();
  facts.server = json{{"gitVersion", "v1.29.4"}, {"minor", "29"}};
  EXPECT_THAT(check_versions(facts), finds(Level::kFail, "v1.29.4 is too old"));
  facts.operators = json::array({operator_deployment(2, "0.1.0")});
  EXPECT_THAT(check_versions(facts), finds(Level::kWarn, "but this plugin is 0.2.0"));
  facts.operators = json::array({operator_deployment(1, "0.2.0")});
  EXPECT_THAT(check_versions(facts), finds(Level::kWarn, "1 of 2 replicas ready"));
  facts.operators = json::array({operator_deployment(0, "0.2.0")});
  EXPECT_THAT(check_versions(facts), finds(Level::kFail, "0 of 2 replicas ready"));
  facts.operators = json::array();
  EXPECT_THAT(check_versions(facts), finds(Level::kFail, "no Deployment of the operator in cc"));
  facts.group = json{{"versions", {{{"version", "v1"}}}}};
  EXPECT_THAT(check_versions(facts),
              finds(Level::kFail, "does not serve compilecache.dev/v1alpha1"));
}

TEST(Doctor, AWebhookThatNobodyReaches) {
  ClusterFacts facts = healthy();
  facts.endpoints = json::array({{{"endpoints", {{{"conditions", {{"ready", false}}}}}}}});
  EXPECT_THAT(check_webhook(facts), finds(Level::kFail, "no endpoint is ready"));
  json hooks = *facts.webhooks;
  hooks[0]["webhooks"][0]["failurePolicy"] = "Fail";
  hooks[0]["webhooks"][0]["namespaceSelector"] = {{"matchLabels", {{"team", "b"}}}};
  facts.webhooks = hooks;
  EXPECT_THAT(check_webhook(facts), finds(Level::kWarn, "failurePolicy is not Ignore"));
  EXPECT_THAT(check_webhook(facts), finds(Level::kWarn, "leaves out the namespace"));
  facts.webhooks = json::array();
  EXPECT_THAT(check_webhook(facts), finds(Level::kFail, "it has no configuration"));
}

TEST(Doctor, CertificatesThatEnd) {
  ClusterFacts facts = healthy();
  using std::chrono::hours;
  facts.certificates = json{{"data", {{"tls.crt", certificate(hours(48), hours(2400))}}}};
  EXPECT_THAT(check_certificates(facts), finds(Level::kWarn, "certificate ends soon"));
  facts.certificates = json{{"data", {{"tls.crt", certificate(hours(48), hours(72))}}}};
  EXPECT_THAT(check_certificates(facts), all_ok());
  facts.webhooks = webhook_list(certificate(hours(-1), hours(2400)));
  EXPECT_THAT(check_certificates(facts), finds(Level::kFail, "caBundle ended at"));
  facts.webhooks = webhook_list("");
  EXPECT_THAT(check_certificates(facts), finds(Level::kFail, "holds no valid certificate"));
  facts.certificates = missing();
  EXPECT_THAT(check_certificates(facts), finds(Level::kUnchecked, "cert-manager keeps another"));
}

TEST(Doctor, APodThatIsNotInjected) {
  ClusterFacts facts = healthy();
  facts.tried->pod = json::object();
  EXPECT_THAT(check_injection(facts), finds(Level::kFail, "is not injected (dry run)"));
  EXPECT_THAT(check_injection(facts)[0].next, HasSubstr("port 9443"));
  facts.tried->pod = fail(ErrorCode::kInvalid, "exceeded quota");
  EXPECT_THAT(check_injection(facts), finds(Level::kWarn, "exceeded quota"));
  facts.tried->pod = forbidden();
  EXPECT_THAT(check_injection(facts), finds(Level::kUnchecked, "not allowed to create pods in ml"));
}

// The webhook adds no annotation to a pod in mode ForceCold, which is what is tried then.
TEST(Doctor, WithoutAReadyCompileCacheThePodsVariablesShowThatTheWebhookAnswered) {
  ClusterFacts facts = healthy();
  facts.tried = TriedPod{
      json::parse(R"({"spec": {"containers": [{"env": [{"name": "A", "value": "1"}]}]}})"), false};
  EXPECT_THAT(check_injection(facts), finds(Level::kOk, "no CompileCache in ml is Ready"));
  facts.tried->pod = json::parse(R"({"spec": {"containers": [{"name": "app"}]}})");
  EXPECT_THAT(check_injection(facts), finds(Level::kFail, "is not injected (dry run)"));
}

TEST(Doctor, NodesWithoutALabelOrTooOld) {
  ClusterFacts facts = healthy();
  facts.nodes = json::array({gpu_node({{"a", "b"}})});
  EXPECT_THAT(check_nodes(facts), finds(Level::kWarn, "no label with the GPU's product on gpu-1"));
  json old = gpu_node({{"nvidia.com/gpu.product", "H100"}});
  old["status"]["nodeInfo"]["kubeletVersion"] = "v1.29.9";
  facts.nodes = json::array({old});
  EXPECT_THAT(check_nodes(facts), finds(Level::kFail, "kubelet older than 1.30 on gpu-1"));
  facts.nodes = forbidden();
  EXPECT_THAT(check_nodes(facts),
              finds(Level::kUnchecked, "not allowed to list nodes: not checked"));
}

TEST(Doctor, StorageThatIsMissing) {
  ClusterFacts facts = healthy();
  facts.storage_classes = json::array();
  EXPECT_THAT(check_storage(facts), finds(Level::kWarn, "no default StorageClass"));
  facts.caches = json::array({doctor_cache("True", {{"claimName", "caches"}})});
  const auto claim = [](const char* name, const char* phase) {
    return json{{"metadata", {{"name", name}}}, {"status", {{"phase", phase}}}};
  };
  facts.claims = json::array({claim("caches", "Pending"), claim("other", "Lost")});
  EXPECT_THAT(check_storage(facts), finds(Level::kWarn, "claim caches is Pending"));
  EXPECT_THAT(check_storage(facts), Not(finds(Level::kFail, "other")));
  facts.claims = json::array({claim("caches", "Lost")});
  EXPECT_THAT(check_storage(facts), finds(Level::kFail, "claim caches is Lost"));
  facts.claims = forbidden();
  EXPECT_THAT(check_storage(facts), finds(Level::kUnchecked, "PersistentVolumeClaims in ml"));
}

json egress_policy(const std::string& name, const json& selector, const json& egress) {
  return {{"metadata", {{"name", name}}},
          {"spec", {{"podSelector", selector}, {"policyTypes", {"Egress"}}, {"egress", egress}}}};
}

TEST(Doctor, NetworkPoliciesThatDenyTheOperator) {
  ClusterFacts facts = healthy();
  const json web = {{"matchLabels", {{"app", "web"}}}};
  const json to_operator = {
      {{"to",
        {{{"namespaceSelector", {{"matchLabels", {{"kubernetes.io/metadata.name", "cc"}}}}}}}},
       {"ports", {{{"protocol", "TCP"}, {"port", 9444}}}}}};
  const json deny = egress_policy("deny", json::object(), json::array());
  const json dns = egress_policy("dns", web, {{{"ports", {{{"protocol", "UDP"}, {"port", 53}}}}}});
  const auto judged = [&](const json& policies) {
    facts.network_policies = policies;
    return check_network(facts);
  };
  EXPECT_THAT(judged(json::array({deny, dns})),
              finds(Level::kWarn, "NetworkPolicy deny, dns denies its pods egress"));
  // One for all pods of the namespace opens the way for each of them.
  EXPECT_THAT(judged(json::array({deny, dns, egress_policy("allow", json::object(), to_operator)})),
              all_ok());
  EXPECT_THAT(judged(json::array({dns, egress_policy("allow", web, to_operator)})), all_ok());
  json other_port = to_operator;
  other_port[0]["ports"][0]["port"] = 443;
  EXPECT_THAT(judged(json::array({egress_policy("allow", web, other_port)})),
              finds(Level::kWarn, "TCP 9444"));
  other_port[0]["ports"][0]["endPort"] = 9999;
  EXPECT_THAT(judged(json::array({egress_policy("allow", web, other_port)})), all_ok());
  EXPECT_THAT(judged(json::array({egress_policy("all", web, json::array({json::object()}))})),
              all_ok());
  json ingress = deny;
  ingress["spec"]["policyTypes"] = {"Ingress"};
  EXPECT_THAT(judged(json::array({ingress})), all_ok());
  facts.network_policies = forbidden();
  EXPECT_THAT(check_network(facts), finds(Level::kUnchecked, "list NetworkPolicies in ml"));
}

TEST(Doctor, AQuotaWithoutRoom) {
  ClusterFacts facts = healthy();
  EXPECT_THAT(check_quotas(facts), finds(Level::kOk, "fit into ml"));
  facts.quotas = json::array(
      {{{"metadata", {{"name", "q"}}},
        {"spec", {{"hard", {{"limits.memory", "1Gi"}}}}},
        {"status",
         {{"hard", {{"limits.memory", "1Gi"}}}, {"used", {{"limits.memory", "900Mi"}}}}}}});
  EXPECT_THAT(check_quotas(facts), finds(Level::kWarn, "q"));
  facts.quotas = forbidden();
  EXPECT_THAT(check_quotas(facts), finds(Level::kUnchecked, "list ResourceQuotas in ml"));
}

TEST(Doctor, ARegistryThatIsMissingDownOrInTrouble) {
  ClusterFacts facts = healthy();
  facts.registry_service = missing();
  EXPECT_THAT(check_registry(facts), finds(Level::kFail, "none is installed"));
  facts.caches = json::array();
  EXPECT_THAT(check_registry(facts), finds(Level::kOk, "none is needed"));
  facts = healthy();
  facts.registry_deployment = json::object();
  EXPECT_THAT(check_registry(facts), finds(Level::kFail, "not ready"));
  json cache = doctor_cache("True");
  cache["status"]["conditions"].push_back({{"type", "RegistryTrouble"},
                                           {"status", "True"},
                                           {"reason", "RegistryNotCollected"},
                                           {"message", "see its log"}});
  cache["status"]["conditions"][0]["reason"] = "QuotaExceeded";
  facts.caches = json::array({cache});
  EXPECT_THAT(check_registry(facts),
              finds(Level::kWarn, "llama: RegistryNotCollected: see its log"));
  EXPECT_THAT(check_registry(facts), finds(Level::kWarn, "llama: QuotaExceeded"));
}

TEST(Doctor, CompileCachesThatAreNotReady) {
  ClusterFacts facts = healthy();
  facts.caches = json::array({doctor_cache("False")});
  EXPECT_THAT(check_caches(facts), finds(Level::kFail, "llama: StorageReady, R"));
  facts.caches = json::array();
  EXPECT_THAT(check_caches(facts), finds(Level::kOk, "there is no CompileCache in ml"));
  facts.caches = forbidden();
  EXPECT_THAT(check_caches(facts), finds(Level::kUnchecked, "list CompileCaches in ml"));
}

TEST(Doctor, WithoutAnInstallationTheClusterAloneIsChecked) {
  ClusterFacts facts = healthy();
  facts.group = missing();
  facts.webhooks = json::array();
  facts.tried.reset();
  Findings findings = check_all(facts);
  EXPECT_THAT(findings, finds(Level::kFail, "compile-cache is not installed"));
  EXPECT_THAT(findings, Not(Contains(Field(&Finding::check, "webhook"))));
  facts.preflight = true;
  facts.rights = {{"namespaces", true}, {"clusterroles", false}};
  findings = check_all(facts);
  EXPECT_FALSE(any_failed(findings)) << text_of(findings);
  EXPECT_THAT(findings, finds(Level::kOk, "not installed yet"));
  EXPECT_THAT(findings, finds(Level::kWarn, "you may not create clusterroles"));
}

TEST(Doctor, FindingsAreLinesAndJson) {
  const Findings findings{{Level::kFail, "webhook", "no endpoint", "look"},
                          {Level::kUnchecked, "nodes", "not allowed", ""}};
  EXPECT_EQ(text_of(findings),
            "FAIL  webhook       no endpoint; look\n"
            "skip  nodes         not allowed\n"
            "\n0 ok, 0 warnings, 1 failure, 1 not checked\n");
  const json all = json_of(findings);
  EXPECT_EQ(
      all["findings"][0],
      json({{"level", "fail"}, {"check", "webhook"}, {"text", "no endpoint"}, {"next", "look"}}));
  EXPECT_EQ(all["fail"], 1);
  EXPECT_EQ(all["skip"], 1);
}

class DoctorCommand : public ::testing::Test {
 protected:
  int run(DoctorOptions options) {
    options.cluster.kubeconfig = kubeconfig_.path();
    out_.str("");
    errors_.str("");
    return run_doctor(options, out_, errors_);
  }
  void answer(const std::string& path, int status, const std::string& body) {
    server_.script([=](const FakeRequest& request, FakeConnection& connection) {
      if (request.path != path) return false;
      connection.reply(status, body);
      return true;
    });
  }

  FakeApiServer server_;
  KubeconfigFile kubeconfig_{server_.url()};
  std::ostringstream out_, errors_;
};

TEST_F(DoctorCommand, OfAnEmptyCluster) {
  answer("/version", 200, R"({"gitVersion": "v1.35.1", "minor": "35"})");
  answer("/apis/compilecache.dev", 404, fake_status(404, "NotFound", "no"));
  EXPECT_EQ(run({}), 1) << errors_.str();
  EXPECT_THAT(out_.str(), HasSubstr("FAIL  api           compile-cache is not installed"));
  EXPECT_THAT(server_.objects("/api/v1/pods"), IsEmpty());
}

TEST_F(DoctorCommand, SaysWhatMayNotBeRead) {
  answer("/version", 200, R"({"gitVersion": "v1.35.1", "minor": "35"})");
  answer("/apis/compilecache.dev", 404, fake_status(404, "NotFound", "no"));
  answer("/api/v1/nodes", 403, fake_status(403, "Forbidden", "no"));
  EXPECT_EQ(run({.preflight = true, .output = "json"}), 0) << out_.str();
  EXPECT_THAT(out_.str(), HasSubstr("not allowed to list nodes: not checked"));
  EXPECT_GE(json::parse(out_.str())["skip"], 1);
}

TEST_F(DoctorCommand, ThatNobodyAnswersIsAnError) {
  answer("/version", 401, fake_status(401, "Unauthorized", "who are you?"));
  EXPECT_EQ(run({}), 1);
  EXPECT_EQ(out_.str(), "");
  EXPECT_THAT(errors_.str(), HasSubstr("Error: "));
}

}  // namespace
}  // namespace compilecache::cli
