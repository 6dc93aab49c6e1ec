#include "webhook/admission.hpp"

#include <array>
#include <cstddef>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/json_writer.hpp"
#include "base/strings.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/read_json.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;

constexpr char kReviewVersion[] = "admission.k8s.io/v1";
constexpr char kOldReviewVersion[] = "admission.k8s.io/v1beta1";
// The API server cuts longer ones (apiserver pkg/warning), in the middle of a word.
constexpr size_t kMaxWarning = 256;
// API servers send UUIDs; longer uids come from no API server and are not sent back.
constexpr size_t kLongestUid = 256;
// The first memory for trees, enough for a usual pod and its patch; larger ones allocate more.
constexpr size_t kScratch = size_t{96} << 10U;

// Cuts the text to kMaxWarning bytes at most, between characters.
std::string shortened(std::string text) {
  constexpr std::string_view kEllipsis = "...";
  if (text.size() <= kMaxWarning) return text;
  text.resize(first_bytes(text, kMaxWarning - kEllipsis.size()).size());
  return text.append(kEllipsis);
}

bool late(const TimeIsUp& time_is_up) { return time_is_up && time_is_up(); }

InjectionReport refused(const std::string& what) {
  InjectionReport report;
  report.reason = InjectionReason::kRequestInvalid;
  report.message = what;
  report.warnings.push_back("compilecache.dev: not injected, request_invalid: " + what);
  return report;
}

std::string answer_body(std::string_view version, std::string_view uid,
                        const InjectionReport& report, const std::string& patch) {
  JsonWriter out(patch.size() * 4 / 3 + 1024);
  out.begin_object();
  out.field("apiVersion", version);
  out.field("kind", "AdmissionReview");
  out.key("response");
  out.begin_object();
  out.field("allowed", true);
  out.field("uid", first_bytes(uid, kLongestUid));
  if (!patch.empty()) {
    out.field("patchType", "JSONPatch");
    out.raw_field("patch", "\"" + base64_encode(patch) + "\"");
  }
  if (!report.warnings.empty()) {
    out.key("warnings");
    out.begin_array();
    for (const std::string& warning : report.warnings) out.value(shortened(warning));
    out.end_array();
  }
  out.end_object();
  out.end_object();
  return out.text();
}

// What keeps a request from being a pod's creation; "" when it is one.
std::string not_a_pod_creation(const Json& request) {
  const Json& kind = object_member(request, "kind");
  const auto this_is = [](const Json& object, const char* name) {
    return ", this is " + std::string(first_bytes(text_member(object, name), kMaxWarning));
  };
  if (text_member(kind, "kind") != "Pod" || !text_member(kind, "group").empty()) {
    return "only pods are injected" + this_is(kind, "kind");
  }
  if (!text_member(request, "subResource").empty()) {
    return "only pods themselves are injected" + this_is(request, "subResource");
  }
  if (text_member(request, "operation") != "CREATE") {
    return "pods are injected when they are created" + this_is(request, "operation");
  }
  if (!member(request, "object").IsObject()) return "the request has no object";
  return {};
}

// The longest name in Kubernetes; names in logs and Events are cut to it.
std::string name_in(const Json& object, const char* name) {
  constexpr size_t kLongestName = 253;
  return std::string(first_bytes(text_member(object, name), kLongestName));
}

EventTarget owner_of(const Json& pod) {
  const Json& owner = controller_of(pod);
  return {name_in(owner, "apiVersion"), name_in(owner, "kind"), name_in(owner, "name"),
          name_in(owner, "uid")};
}

void describe(AdmissionAnswer& answer, const Json& request, const Json& pod) {
  const Json& metadata = object_member(pod, "metadata");
  answer.ns = name_in(request, "namespace");
  if (answer.ns.empty()) answer.ns = name_in(metadata, "namespace");
  answer.pod = name_in(request, "name");
  if (answer.pod.empty()) answer.pod = name_in(metadata, "name");
  if (answer.pod.empty()) answer.pod = name_in(metadata, "generateName");
  answer.cache = name_in(object_member(metadata, "annotations"), api::kCacheAnnotation);
  answer.owner = owner_of(pod);
  answer.dry_run = is_true(member(request, "dryRun"));
}

InjectionReport too_late() {
  const api::InjectionReasonText& text = api::text_of(InjectionReason::kTookTooLong);
  InjectionReport report;
  report.reason = InjectionReason::kTookTooLong;
  report.message = text.sentence;
  report.warnings.push_back("compilecache.dev: not injected, " + std::string(text.word) + ": " +
                            report.message);
  return report;
}

// The patch, or "", and the report into `answer`. The pod, of the document with that memory, is
// patched too: a patch that does not apply would block it.
std::string injection_patch(AdmissionAnswer& answer, Json& pod, JsonMemory& memory,
                            const AdmissionCluster& cluster, const TimeIsUp& time_is_up) {
  const auto settings = cluster.settings();
  const auto cache = answer.cache.empty() ? nullptr : cluster.cache(answer.ns, answer.cache);
  const NamespaceFacts facts = cluster.namespace_facts(answer.ns);
  InjectionResult result = inject(
      {.pod = pod, .ns = answer.ns, .cache = cache.get(), .facts = facts, .settings = *settings});
  answer.report = std::move(result.report);
  if (result.patch.empty()) return {};
  if (late(time_is_up)) {
    answer.report = too_late();
    return {};
  }
  std::string patch = patch_text(result.patch);
  const Status applied = apply(patch, pod, memory);
  if (applied) return patch;
  answer.report =
      InjectionReport{InjectionOutcome::kSkipped,
                      InjectionReason::kPatchFailed,
                      applied.error().message,
                      {"compilecache.dev: not injected, patch_failed: " + applied.error().message}};
  return {};
}

AdmissionAnswer answer_review(JsonDocument review, const AdmissionCluster& cluster,
                              const TimeIsUp& time_is_up) {
  AdmissionAnswer answer;
  const Json& request = object_member(review, "request");
  const std::string_view version = text_member(review, "apiVersion");
  std::string patch;
  if (version != kReviewVersion) {
    answer.report = refused("only AdmissionReview of " + std::string(kReviewVersion) +
                            " is understood, this is \"" +
                            std::string(first_bytes(version, kMaxWarning)) + "\"");
  } else if (const std::string why = not_a_pod_creation(request); !why.empty()) {
    answer.report = refused(why);
  } else {
    Json& pod = *find_member(*find_member(review, "request"), "object");
    describe(answer, request, pod);
    if (late(time_is_up)) {
      answer.report = too_late();
    } else {
      patch = injection_patch(answer, pod, review.GetAllocator(), cluster, time_is_up);
    }
  }
  // An older API server reads only an answer of its own version.
  const bool known = version == kOldReviewVersion;
  answer.body = answer_body(known ? version : kReviewVersion, text_member(request, "uid"),
                            answer.report, patch);
  return answer;
}

AdmissionAnswer without_review(const std::string& what) {
  AdmissionAnswer answer;
  answer.report = refused(what);
  answer.body = answer_body(kReviewVersion, "", answer.report, "");
  return answer;
}

AdmissionAnswer without_reading(const std::string& body) {
  AdmissionAnswer answer;
  answer.report = too_late();
  answer.body = answer_body(kReviewVersion, read_review_uid(body), answer.report, "");
  return answer;
}

}  // namespace

AdmissionAnswer admit(const std::string& body, const AdmissionCluster& cluster,
                      const TimeIsUp& time_is_up) noexcept {
  try {
    try {
      if (late(time_is_up)) return without_reading(body);
      // Used again for the next request: allocated again, it would be returned to the kernel and
      // be filled with zeros each time.
      alignas(std::max_align_t) static thread_local std::array<char, kScratch> scratch;
      JsonMemory memory(scratch.data(), scratch.size());
      auto review = read_review(body, memory);
      if (!review) {
        return without_review("reading the AdmissionReview: " + review.error().message);
      }
      return answer_review(std::move(*review), cluster, time_is_up);
    } catch (const std::exception& exception) {
      return without_review("answering the AdmissionReview: " + std::string(exception.what()));
    }
  } catch (...) {
    // Out of memory, even for a sentence.
    return {};
  }
}

}  // namespace compilecache::webhook
