#include "operator/webhook_service.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/names.hpp"
#include "api/reasons.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

constexpr char kPath[] = "/mutate";
// Most pods have about 10 kB.
constexpr size_t kLargeReview = 64U << 10;
// The timeout in our configuration, for callers that do not send theirs; and the longest.
constexpr milliseconds kUsualPatience{3000};
constexpr milliseconds kLongestPatience{10'000};
constexpr milliseconds kOverloaded{2000};
constexpr milliseconds kStuck{20'000};

// A refusal takes this time, whatever part of the path is right.
bool is_same(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

// The path in a configuration without a secret.
bool is_review_path(std::string_view path) {
  return path == kPath || path == "/" || path.starts_with(kPath + std::string("/"));
}

kube::Fields bounded_fields(const std::vector<std::string>& pointers) {
  constexpr size_t kMostElements = 256;
  kube::Fields fields{"/metadata/name"};
  for (const std::string& pointer : pointers) fields.add(pointer);
  return fields.with_elements(kMostElements);
}

// How long the API server waits for the response; it says so in the query ("timeout=3s").
milliseconds timeout_of(const http::Request& request) {
  const auto said = parse_duration(request.query_parameter("timeout").value_or("").substr(0, 32));
  return said ? std::min(*said, kLongestPatience) : kUsualPatience;
}

// By when the response has to be ready, which then travels and is checked.
Monotonic deadline_of(const http::Request& request, Monotonic begin) {
  return begin + timeout_of(request) * 2 / 3;
}

}  // namespace

WebhookService::WebhookService(kube::Client client, const kube::Store<api::CompileCache>& caches,
                               webhook::InjectionSettings settings, kube::EventSink& events,
                               Metrics& metrics, const Clock& clock, int threads)
    : caches_(caches),
      events_(events),
      metrics_(metrics),
      clock_(clock),
      limit_reflector_(client,
                       {.resource = kube::resources::kLimitRanges,
                        .fields = bounded_fields(webhook::limit_range_fields())},
                       webhook::parse_limit_range, limits_, clock),
      quota_reflector_(client,
                       {.resource = kube::resources::kResourceQuotas,
                        .fields = bounded_fields(webhook::resource_quota_fields())},
                       webhook::parse_resource_quota, quotas_, clock),
      settings_(std::make_shared<const webhook::InjectionSettings>(std::move(settings))),
      pool_(threads, clock),
      pending_([this](const std::string& cache) { return is_decided(cache); }, clock) {}

void WebhookService::start() {
  limit_reflector_.start();
  quota_reflector_.start();
  pool_.start();
  pending_.start();
}

void WebhookService::stop() {
  pending_.stop();
  pool_.stop();
  limit_reflector_.stop();
  quota_reflector_.stop();
}

bool WebhookService::overloaded() const { return pool_.longest_wait() >= kOverloaded; }

bool WebhookService::stuck() const { return pool_.longest_work() >= kStuck; }

bool WebhookService::synced() const {
  return caches_.has_synced() && limits_.has_synced() && quotas_.has_synced();
}

void WebhookService::handle(http::Request request, http::Responder respond) {
  if (needs_certificate_ && is_review_path(request.path) &&
      request.certificate != http::ClientCertificate::kTrusted) {
    log_debug("a review without a certificate of --webhook-client-ca", {{"peer", request.peer}});
    const bool none = request.certificate == http::ClientCertificate::kNone;
    respond(http::text_response(none ? 401 : 403,
                                "only API servers with a certificate of "
                                "--webhook-client-ca are answered"));
    return;
  }
  const ReviewPath secret = review_path_ ? review_path_() : ReviewPath();
  const bool of_api_server =
      needs_certificate_ ||
      (!secret.secret.empty() && is_same(request.path, kPath + ("/" + secret.secret)));
  if (!of_api_server && secret.in_force) {
    // Whoever asks learns nothing, and nothing is looked at.
    refused_();
    respond(http::text_response(403, "only API servers are answered"));
    return;
  }
  // Where no secret is in force the path may have an old one, of an installation that now uses
  // somebody else's certificates, say.
  if (!is_review_path(request.path)) {
    respond(http::text_response(404, "the webhook is at /mutate"));
    return;
  }
  if (request.method != "POST") {
    respond(http::text_response(405, "an AdmissionReview is sent by POST"));
    return;
  }
  const bool is_large = request.body.size() > kLargeReview;
  add(is_large,
      std::make_shared<const Review>(Review{.request = std::move(request),
                                            .respond = std::move(respond),
                                            .begin = clock_.monotonic(),
                                            .of_api_server = of_api_server}),
      !is_large);
}

void WebhookService::add(bool is_large, const std::shared_ptr<const Review>& review,
                         bool may_hold) {
  if (pool_.add(is_large, [=, this] { answer(review, may_hold); })) return;
  // The answer says nothing about the pod, which would have to be parsed. API servers go on without
  // us.
  metrics_.webhook_request(std::string(api::text_of(api::InjectionReason::kTookTooLong).word), 0);
  review->respond(http::text_response(503, "too many pods are being created at once; try again"));
}

void WebhookService::answer(const std::shared_ptr<const Review>& review, bool may_hold) {
  const Monotonic end = deadline_of(review->request, review->begin);
  const webhook::AdmissionAnswer answer =
      webhook::admit(review->request.body, *this, [&] { return clock_.monotonic() >= end; });
  const std::string cache = kube::object_key(answer.ns, answer.cache);
  const bool is_pending = (answer.report.reason == api::InjectionReason::kCacheNotFound ||
                           answer.report.reason == api::InjectionReason::kCacheNotReady) &&
                          !is_decided(cache);
  if (may_hold && is_pending && !answer.dry_run &&
      pending_.hold(cache, review->begin + timeout_of(review->request) / 2,
                    [=, this] { add(false, review, false); })) {
    return;
  }
  review->respond({.status = 200, .body = answer.body});
  const std::chrono::duration<double> took = clock_.monotonic() - review->begin;
  metrics_.webhook_request(std::string(api::text_of(answer.report.reason).word), took.count());
  if (!answer.dry_run) tell(answer, review->of_api_server);
}

// Whether the leader has looked at the storage; a registry does not have to wait for that.
bool WebhookService::is_decided(const std::string& cache) const {
  const auto found = caches_.get(cache);
  if (found == nullptr) return false;
  const auto* ready = api::find_condition(found->status.conditions, api::kStorageReadyCondition);
  if (ready == nullptr) return !found->spec.storage || found->spec.storage->claim_name.empty();
  return ready->reason != api::kVolumeUnknownReason;
}

void WebhookService::tell(const webhook::AdmissionAnswer& answer, bool of_api_server) {
  const webhook::InjectionReport& report = answer.report;
  const api::InjectionReasonText& text = api::text_of(report.reason);
  log_info("admission", {{"namespace", answer.ns},
                         {"pod", answer.pod},
                         {"cache", answer.cache},
                         {"outcome", std::string(webhook::to_string(report.outcome))},
                         {"reason", std::string(text.word)},
                         {"message", report.message}});
  if (report.outcome == webhook::InjectionOutcome::kUnchanged) return;
  if (report.reason == api::InjectionReason::kNotAnnotated) return;
  kube::ObjectReference about{answer.owner.api_version, answer.owner.kind, answer.ns,
                              answer.owner.name, answer.owner.uid};
  if (about.kind.empty() || !of_api_server) {
    // A bare pod does not exist yet, nor may anything that a stranger names; the CompileCache does.
    const auto found = cache(answer.ns, answer.cache);
    if (found == nullptr) return;
    about = {api::kApiVersion, "CompileCache", answer.ns, answer.cache, found->metadata.uid};
  }
  const auto type = report.outcome == webhook::InjectionOutcome::kInjected ||
                            report.reason == api::InjectionReason::kDisabled ||
                            report.reason == api::InjectionReason::kOwnCaches
                        ? kube::EventType::kNormal
                        : kube::EventType::kWarning;
  events_.record({about, type, std::string(text.event), report.message});
}

void WebhookService::change(const std::function<void(webhook::InjectionSettings&)>& how) {
  const MutexLock lock(mutex_);
  auto next = std::make_shared<webhook::InjectionSettings>(*settings_);
  how(*next);
  settings_ = std::move(next);
}

void WebhookService::set_ca(const std::string& bundle) {
  change([&](webhook::InjectionSettings& settings) { settings.agent_ca = bundle; });
}

void WebhookService::set_own_registry(const api::OwnRegistry& registry) {
  change([&](webhook::InjectionSettings& settings) { settings.own_registry = registry; });
}

void WebhookService::set_agent_address(const std::string& address) {
  change([&](webhook::InjectionSettings& settings) { settings.agent_address = address; });
}

void WebhookService::set_load_address(const std::string& address) {
  change([&](webhook::InjectionSettings& settings) { settings.load_address = address; });
}

void WebhookService::set_native_sidecars(bool every_kubelet_knows_them) {
  change([&](webhook::InjectionSettings& settings) {
    settings.native_sidecars = every_kubelet_knows_them;
  });
}

void WebhookService::set_resource_claims(bool served) {
  change([&](webhook::InjectionSettings& settings) { settings.resource_claims = served; });
}

std::shared_ptr<const api::CompileCache> WebhookService::cache(const std::string& ns,
                                                               const std::string& name) const {
  return caches_.get(kube::object_key(ns, name));
}

webhook::NamespaceFacts WebhookService::namespace_facts(const std::string& ns) const {
  webhook::NamespaceFacts facts;
  for (const auto& limits : limits_.list(ns)) {
    facts.limits.insert(facts.limits.end(), limits->begin(), limits->end());
  }
  for (const auto& quota : quotas_.list(ns)) facts.quotas.push_back(*quota);
  return facts;
}

std::shared_ptr<const webhook::InjectionSettings> WebhookService::settings() const {
  const MutexLock lock(mutex_);
  return settings_;
}

}  // namespace compilecache::controller
