#include <algorithm>
#include <charconv>

#include "base/base64.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "cli/cluster/webhook_scope.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/shell/version_command.hpp"
#include "cli/text/json_at.hpp"
#include "operator/certificates/certificates.hpp"

// Checks of the installation.

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr int kOldestMinor = 30;
constexpr char kInstall[] = "install it: docs/run/install.md";
constexpr std::chrono::hours kSoon{24 * 14};

int64_t number_at(const json& object, const char* pointer) {
  const json& value = at(object, pointer);
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

Finding check_server(const ClusterFacts& facts) {
  if (!facts.server) return unread("api-server", facts.server.error(), "read its version");
  const std::string version = text_in(*facts.server, "/gitVersion");
  const std::string minor = text_in(*facts.server, "/minor");  // "30+"
  int number = kOldestMinor;
  std::from_chars(minor.data(), minor.data() + minor.size(), number);
  if (number >= kOldestMinor) return {Level::kOk, "api-server", "Kubernetes " + version, ""};
  return {Level::kFail, "api-server", "Kubernetes " + version + " is too old",
          "upgrade it to 1.30 or newer"};
}

Finding check_api(const ClusterFacts& facts) {
  if (!facts.group && facts.group.error().code != ErrorCode::kNotFound) {
    return unread("api", facts.group.error(), "read /apis/compilecache.dev");
  }
  if (!facts.group) {
    return facts.preflight ? Finding{Level::kOk, "api", "not installed yet", ""}
                           : Finding{Level::kFail, "api", "compile-cache is not installed",
                                     std::string(kInstall) + ", after doctor --preflight"};
  }
  for (const json& version : at(*facts.group, "/versions")) {
    if (text_in(version, "/version") == "v1alpha1") {
      return {Level::kOk, "api", "compilecache.dev/v1alpha1", ""};
    }
  }
  return {Level::kFail, "api", "the API server does not serve compilecache.dev/v1alpha1",
          "apply the CRDs of this release: docs/run/upgrade.md"};
}

Finding check_operator(const json& deployment, const std::string& plugin) {
  const std::string where = text_in(deployment, "/metadata/namespace");
  const std::string version =
      tag_of_image(text_in(deployment, "/spec/template/spec/containers/0/image"));
  const int64_t wanted = number_at(deployment, "/spec/replicas");
  const int64_t ready = number_at(deployment, "/status/readyReplicas");
  const std::string text = (version.empty() ? "of unknown version" : version) + " in " + where +
                           ", " + std::to_string(ready) + " of " + std::to_string(wanted) +
                           " replicas ready";
  const std::string look = "kubectl get pods -n " + where;
  if (ready == 0) return {Level::kFail, "operator", text, look};
  if (ready < wanted) return {Level::kWarn, "operator", text, look};
  if (!version.empty() && version != plugin) {
    return {Level::kWarn, "operator", text + ", but this plugin is " + plugin,
            "use the plugin of the operator's release"};
  }
  return {Level::kOk, "operator", text, ""};
}

Findings check_operators(const ClusterFacts& facts) {
  if (!facts.operators) {
    return {unread("operator", facts.operators.error(), "list Deployments")};
  }
  if (facts.operators->empty()) {
    return {{Level::kFail, "operator", "no Deployment of the operator in " + facts.operator_ns,
             kInstall}};
  }
  Findings findings;
  for (const json& deployment : *facts.operators) {
    findings.push_back(check_operator(deployment, facts.plugin_version));
  }
  return findings;
}

int ready_endpoints(const json& slices) {
  int ready = 0;
  for (const json& slice : slices) {
    for (const json& endpoint : at(slice, "/endpoints")) {
      if (at(endpoint, "/conditions/ready") != false) ++ready;  // absent is ready
    }
  }
  return ready;
}

Finding check_endpoints(const ClusterFacts& facts) {
  if (!facts.endpoints) return unread("webhook", facts.endpoints.error(), "list EndpointSlices");
  const int ready = ready_endpoints(*facts.endpoints);
  const std::string text = std::to_string(ready) + (ready == 1 ? " endpoint" : " endpoints");
  if (ready > 0) return {Level::kOk, "webhook", text + " ready", ""};
  return {Level::kFail, "webhook", "no endpoint is ready, so pods are not injected",
          "kubectl get pods -n " + facts.operator_ns};
}

std::vector<std::string> certificates_in(const std::string& pem) {
  constexpr char kBegin[] = "-----BEGIN CERTIFICATE-----";
  std::vector<std::string> all;
  for (size_t from = pem.find(kBegin); from != std::string::npos;) {
    const size_t next = pem.find(kBegin, from + 1);
    all.push_back(pem.substr(from, next - from));
    from = next;
  }
  return all;
}

// The facts of the one that ends last; nothing: one cannot be read, or there is none.
std::optional<controller::CertificateFacts> last_of(const std::vector<std::string>& certificates) {
  std::optional<controller::CertificateFacts> last;
  for (const std::string& one : certificates) {
    const auto read = controller::read_certificate(one);
    if (!read) return std::nullopt;
    if (!last || last->not_after < read->not_after) last = *read;
  }
  return last;
}

// They are renewed long before; those of a short life end soon at all times.
Finding check_end(const std::string& what, const std::vector<std::string>& certificates,
                  const ClusterFacts& facts) {
  constexpr char kCheck[] = "certificates";
  const std::string look = "see the operator's log: kubectl logs -n " + facts.operator_ns +
                           " deploy/compilecache-operator";
  const auto last = last_of(certificates);
  if (!last) return {Level::kFail, kCheck, what + " holds no valid certificate", look};
  const WallTime end = last->not_after;
  const std::string until = format_time(end);
  if (end <= facts.now) return {Level::kFail, kCheck, what + " ended at " + until, look};
  const auto soon = std::min<Duration>(kSoon, (end - last->not_before) / 8);
  if (end <= facts.now + soon) {
    return {Level::kWarn, kCheck, what + " ends soon, at " + until, look};
  }
  return {Level::kOk, kCheck, what + " ends at " + until, ""};
}

std::vector<std::string> decoded(const std::string& base64) {
  return certificates_in(base64_decode(base64).value_or(""));
}

json labels_of_namespace(const ClusterFacts& facts) {
  if (facts.ns_object && at(*facts.ns_object, "/metadata/labels").is_object()) {
    return at(*facts.ns_object, "/metadata/labels");
  }
  return {{"kubernetes.io/metadata.name", facts.ns}};
}

}  // namespace

Findings check_versions(const ClusterFacts& facts) {
  Findings findings{check_server(facts), check_api(facts)};
  if (facts.installed()) {
    const Findings operators = check_operators(facts);
    findings.insert(findings.end(), operators.begin(), operators.end());
  }
  return findings;
}

Findings check_webhook(const ClusterFacts& facts) {
  if (!facts.webhooks) {
    return {unread("webhook", facts.webhooks.error(), "list MutatingWebhookConfigurations")};
  }
  const json webhook = webhook_among(*facts.webhooks);
  if (webhook.is_null()) {
    return {
        {Level::kFail, "webhook", "it has no configuration, so pods are not injected", kInstall}};
  }
  Findings findings{check_endpoints(facts)};
  if (text_in(webhook, "/failurePolicy") != "Ignore") {
    findings.push_back(
        {Level::kWarn, "webhook",
         "its failurePolicy is not Ignore, so annotated pods cannot be created while "
         "the operator is away",
         "set failurePolicy: Ignore"});
  }
  const std::string out = why_not_sent(webhook, labels_of_namespace(facts), {});
  if (!out.empty()) {
    findings.push_back({Level::kWarn, "webhook", out + " (" + facts.ns + ")",
                        "change its selectors if pods there are to be injected"});
  }
  return findings;
}

Findings check_certificates(const ClusterFacts& facts) {
  Findings findings;
  const json webhook = facts.webhooks ? webhook_among(*facts.webhooks) : json();
  if (!webhook.is_null()) {
    findings.push_back(check_end("the webhook's caBundle",
                                 decoded(text_in(webhook, "/clientConfig/caBundle")), facts));
  }
  if (facts.certificates) {
    auto chain = decoded(text_in(*facts.certificates, "/data/tls.crt"));
    chain.resize(std::min<size_t>(chain.size(), 1));  // what follows are authorities
    findings.push_back(check_end("the operator's certificate", chain, facts));
  } else if (facts.certificates.error().code == ErrorCode::kNotFound) {
    findings.push_back({Level::kUnchecked, "certificates",
                        "there is no Secret compilecache-certificates in " + facts.operator_ns +
                            " (cert-manager keeps another): not checked",
                        ""});
  } else {
    findings.push_back(unread("certificates", facts.certificates.error(),
                              "get Secret compilecache-certificates in " + facts.operator_ns));
  }
  return findings;
}

Findings check_rights(const ClusterFacts& facts) {
  std::vector<std::string> denied;
  for (const Right& right : facts.rights) {
    if (!right.allowed) return {unread("rights", right.allowed.error(), "review your rights")};
    if (!*right.allowed) denied.push_back(right.what);
  }
  if (denied.empty()) return {{Level::kOk, "rights", "you may install", ""}};
  return {{Level::kWarn, "rights", "you may not create " + join(denied, ", "),
           "let a cluster administrator install it"}};
}

}  // namespace compilecache::cli
