#include "webhook/admission.hpp"

#include <algorithm>

#include "base/base64.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/review.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;

constexpr char kReviewVersion[] = "admission.k8s.io/v1";
constexpr char kOldReviewVersion[] = "admission.k8s.io/v1beta1";
// The API server cuts longer ones (apiserver pkg/warning), in the middle of a word.
constexpr size_t kMaxWarning = 256;

// At most kMaxWarning bytes, cut between characters.
std::string shortened(std::string text) {
  constexpr std::string_view kEllipsis = "...";
  if (text.size() <= kMaxWarning) return text;
  size_t end = kMaxWarning - kEllipsis.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text.append(kEllipsis);
}

Report refused(const std::string& what) {
  Report report;
  report.reason = InjectionReason::kRequestInvalid;
  report.message = what;
  report.warnings.push_back("compilecache.dev: not injected, request_invalid: " + what);
  return report;
}

std::string to_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Put together by hand: the patch is large, and base64 needs no escapes.
std::string answer_body(const std::string& version, const json& uid, const Report& report,
                        const json& patch) {
  std::string body = R"({"apiVersion":")" + version +
                     R"(","kind":"AdmissionReview","response":{"allowed":true,"uid":)" +
                     to_text(uid);
  if (!patch.empty()) {
    body += R"(,"patchType":"JSONPatch","patch":")" + base64_encode(patch.dump()) + "\"";
  }
  if (!report.warnings.empty()) {
    json warnings = json::array();
    for (const std::string& warning : report.warnings) warnings.push_back(shortened(warning));
    body += R"(,"warnings":)" + to_text(warnings);
  }
  return body + "}}";
}

// What keeps a request from being a pod's creation; "" when it is one.
std::string not_a_pod_creation(const json& request) {
  const json& kind = object_member(request, "kind");
  if (text_member(kind, "kind") != "Pod" || !text_member(kind, "group").empty()) {
    return "only pods are injected, this is a " + text_member(kind, "kind");
  }
  if (!text_member(request, "subResource").empty()) {
    return "only pods themselves are injected, this is " + text_member(request, "subResource");
  }
  if (text_member(request, "operation") != "CREATE") {
    return "pods are injected when they are created, this is " + text_member(request, "operation");
  }
  if (!member(request, "object").is_object()) return "the request has no object";
  return {};
}

EventTarget owner_of(const json& pod) {
  for (const json& owner : array_member(object_member(pod, "metadata"), "ownerReferences")) {
    if (member(owner, "controller") == true) {
      return {text_member(owner, "apiVersion"), text_member(owner, "kind"),
              text_member(owner, "name"), text_member(owner, "uid")};
    }
  }
  return {};
}

void describe(AdmissionAnswer& answer, const json& request, const json& pod) {
  const json& metadata = object_member(pod, "metadata");
  answer.ns = text_member(request, "namespace");
  if (answer.ns.empty()) answer.ns = text_member(metadata, "namespace");
  answer.pod = text_member(request, "name");
  if (answer.pod.empty()) answer.pod = text_member(metadata, "name");
  if (answer.pod.empty()) answer.pod = text_member(metadata, "generateName");
  answer.cache = wanted_cache(pod).value_or("");
  answer.owner = owner_of(pod);
  answer.dry_run = member(request, "dryRun") == true;
}

// The patch, and the report into `answer`. The pod is used up.
json injection_patch(AdmissionAnswer& answer, json& pod, const AdmissionCluster& cluster) {
  const auto settings = cluster.settings();
  const auto cache = answer.cache.empty() ? nullptr : cluster.cache(answer.ns, answer.cache);
  const NamespaceFacts facts = cluster.namespace_facts(answer.ns);
  InjectionResult result = inject(
      {.pod = pod, .ns = answer.ns, .cache = cache.get(), .facts = facts, .settings = *settings});
  answer.report = std::move(result.report);
  if (!result.pod) return json::array();
  auto patch = make_patch(std::move(pod), *result.pod);
  if (patch) return std::move(*patch);
  answer.report =
      Report{Outcome::kSkipped,
             InjectionReason::kPatchFailed,
             patch.error().message,
             {"compilecache.dev: not injected, patch_failed: " + patch.error().message}};
  return json::array();
}

AdmissionAnswer answer_review(json review, const AdmissionCluster& cluster) {
  AdmissionAnswer answer;
  const json& request = object_member(review, "request");
  const json& given_uid = member(request, "uid");
  const json uid = given_uid.is_string() ? given_uid : json("");
  const std::string version = text_member(review, "apiVersion");
  json patch = json::array();
  if (version != kReviewVersion) {
    answer.report = refused("only AdmissionReview of " + std::string(kReviewVersion) +
                            " is understood, this is \"" + version + "\"");
  } else if (const std::string why = not_a_pod_creation(request); !why.empty()) {
    answer.report = refused(why);
  } else {
    json& pod = review["request"]["object"];
    describe(answer, request, pod);
    patch = injection_patch(answer, pod, cluster);
  }
  // An older API server reads only an answer of its own version.
  const bool known = version == kOldReviewVersion;
  answer.body = answer_body(known ? version : kReviewVersion, uid, answer.report, patch);
  return answer;
}

AdmissionAnswer without_review(const std::string& what) {
  AdmissionAnswer answer;
  answer.report = refused(what);
  answer.body = answer_body(kReviewVersion, "", answer.report, json::array());
  return answer;
}

}  // namespace

AdmissionAnswer admit(std::string_view body, const AdmissionCluster& cluster) noexcept {
  try {
    try {
      auto review = parse_review(body);
      if (!review) return without_review(review.error().message);
      return answer_review(std::move(*review), cluster);
    } catch (const std::exception& exception) {
      return without_review("answering the AdmissionReview: " + std::string(exception.what()));
    }
  } catch (...) {
    // Out of memory, even for a sentence.
    return {};
  }
}

}  // namespace compilecache::webhook
