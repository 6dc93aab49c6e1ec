#include "operator/review_path.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr char kEntry[] = "path";
constexpr char kOpenPath[] = "/mutate";
constexpr char kSecretPaths[] = "/mutate/";
constexpr char kOperatorPods[] = "app.kubernetes.io/name=compilecache-operator";
constexpr seconds kLook{5};
constexpr seconds kSoonest{1};
// How long it takes until every API server has noticed a change of the configuration.
constexpr seconds kUntilHeard{5};

bool is_asked_by(const json& webhook, const std::string& service_namespace) {
  const json service =
      webhook.value("clientConfig", json::object()).value("service", json::object());
  return service.value("name", "") == api::kWebhookService &&
         service.value("namespace", "") == service_namespace;
}

std::string path_in(const json& webhook) {
  return webhook.at("clientConfig").at("service").value("path", "");
}

bool is_marked_open(const json& configuration) {
  return configuration.value("/metadata/annotations"_json_pointer, json::object())
      .contains(kOpenReviewPath);
}

// Whether a path is one that we may replace.
bool is_free(const std::string& path, bool marked_open) {
  return path.empty() || path == "/" || path.starts_with(kSecretPaths) ||
         (marked_open && path == kOpenPath);
}

Result<std::string> entry_of(const json& secret, const std::string& name) {
  const json entry = secret.value("data", json::object()).value(kEntry, json());
  auto text = entry.is_string() ? base64_decode(entry.get<std::string>()) : std::nullopt;
  if (text && !text->empty()) return std::move(*text);
  return fail(ErrorCode::kInvalid, "the Secret " + name + " has no entry \"" + kEntry +
                                       "\": delete it, the leader makes another one");
}

}  // namespace

json path_patch(const json& configuration, const std::string& service_namespace,
                const std::string& path) {
  json patch = json::array();
  json wanted = configuration;
  const json webhooks = configuration.value("webhooks", json::array());
  for (size_t i = 0; i < webhooks.size(); ++i) {
    const json& webhook = webhooks[i];
    if (!is_asked_by(webhook, service_namespace)) continue;
    const std::string now = path_in(webhook);
    if (now == path || !is_free(now, is_marked_open(configuration))) continue;
    wanted["webhooks"][i]["clientConfig"]["service"]["path"] = path;
    const std::string name = "/webhooks/" + std::to_string(i) + "/name";
    patch.push_back({{"op", "test"}, {"path", name}, {"value", webhook.value("name", "")}});
  }
  if (patch.empty()) return patch;
  if (path == kOpenPath) {
    wanted["metadata"]["annotations"][kOpenReviewPath] = "true";
  } else if (is_marked_open(configuration)) {
    wanted["metadata"]["annotations"].erase(kOpenReviewPath);
  }
  for (json& step : json::diff(configuration, wanted)) patch.push_back(std::move(step));
  return patch;
}

ReviewPathKeeper::ReviewPathKeeper(kube::Client client, ReviewPathOptions options,
                                   std::function<bool()> is_leader, const Clock& clock)
    : client_(std::move(client)),
      options_(std::move(options)),
      is_leader_(std::move(is_leader)),
      clock_(clock) {}

ReviewPathKeeper::~ReviewPathKeeper() { stop(); }

void ReviewPathKeeper::start() {
  thread_ = std::thread([this] { run(); });
}

void ReviewPathKeeper::stop() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReviewPathKeeper::look_soon() {
  {
    const MutexLock lock(mutex_);
    soon_ = true;
  }
  changed_.notify_all();
}

ReviewPath ReviewPathKeeper::path() const {
  const MutexLock lock(mutex_);
  return path_;
}

// Waits until the time is over, or until somebody wants a check after kSoonest; false when it is to
// end.
bool ReviewPathKeeper::wait(Duration time) {
  const MutexLock lock(mutex_);
  changed_.wait_for(mutex_, kSoonest, [this]() REQUIRES(mutex_) { return ending_; });
  changed_.wait_for(mutex_, time - kSoonest,
                    [this]() REQUIRES(mutex_) { return ending_ || soon_; });
  soon_ = false;
  return !ending_;
}

void ReviewPathKeeper::run() {
  std::string told;  // an error that lasts is told once
  do {
    const Status done = round();
    const std::string error = done ? "" : done.error().message;
    if (!error.empty() && error != told) {
      log_warn("keeping the path of the webhook", {{"error", error}});
    }
    told = error;
  } while (wait(kLook));
}

Status ReviewPathKeeper::round() {
  const MutexLock lock(round_);
  auto secret = read_secret();
  if (!secret) return unexpected(secret.error().with("reading the path of the webhook"));
  auto configuration = client_.get(kube::resources::kMutatingWebhookConfigurations, "",
                                   options_.webhook_configuration);
  if (!configuration && configuration.error().code == ErrorCode::kNotFound) {
    configuration = json::object();  // then there is no injection, and nobody to be told
  }
  if (!configuration) return unexpected(configuration.error().with("reading who asks the webhook"));
  note(*secret, *configuration);
  const auto earlier = earlier_release_runs();
  if (!earlier) return unexpected(earlier.error().with("looking for replicas of release 0.1"));
  if (*earlier) return write(*configuration, kOpenPath);
  if (secret->empty() || !is_leader_()) return {};
  return write(*configuration, kSecretPaths + *secret);
}

Status ReviewPathKeeper::write(const json& configuration, const std::string& path) {
  const json patch = path_patch(configuration, options_.ns, path);
  if (patch.empty()) return {};
  const auto written = client_.patch(kube::resources::kMutatingWebhookConfigurations, "",
                                     options_.webhook_configuration, kube::PatchType::kJson, patch);
  if (!written) return unexpected(written.error().with("writing the webhook's path"));
  log_info("wrote the path of the webhook", {{"configuration", options_.webhook_configuration},
                                             {"kind", path == kOpenPath ? "open" : "secret"}});
  note(this->path().secret, *written);
  return {};
}

// A pod that is ending counts too: API servers keep their connections to it.
Result<bool> ReviewPathKeeper::earlier_release_runs() {
  const auto pods = client_.list_all(kube::resources::kPods,
                                     {.ns = options_.ns, .label_selector = kOperatorPods});
  if (!pods) return unexpected(pods.error());
  for (const json& pod : pods->value("items", json::array())) {
    const std::string phase = kube::string_at(pod, {"status", "phase"});
    if (phase == "Succeeded" || phase == "Failed") continue;
    const json labels = pod.value("/metadata/labels"_json_pointer, json::object());
    if (!labels.contains(kKnowsReviewPathLabel)) return true;
  }
  return false;
}

// Empty where no leader has made it yet.
Result<std::string> ReviewPathKeeper::read_secret() {
  const auto secret = client_.get(kube::resources::kSecrets, options_.ns, options_.secret);
  if (secret) return entry_of(*secret, options_.secret);
  if (secret.error().code != ErrorCode::kNotFound) return unexpected(secret.error());
  return is_leader_() ? make_secret() : Result<std::string>("");
}

Result<std::string> ReviewPathKeeper::make_secret() {
  const std::string made = random_id(system_random()) + random_id(system_random());
  const json object = {{"apiVersion", "v1"},
                       {"kind", "Secret"},
                       {"metadata", {{"name", options_.secret}, {"namespace", options_.ns}}},
                       {"type", "Opaque"},
                       {"data", {{kEntry, base64_encode(made)}}}};
  const auto created = client_.create(kube::resources::kSecrets, object);
  if (!created) return unexpected(created.error());
  log_info("made a path for the webhook", {{"secret", options_.secret}});
  return made;
}

void ReviewPathKeeper::note(const std::string& secret, const json& configuration) {
  bool any = false;
  bool all = true;
  for (const json& webhook : configuration.value("webhooks", json::array())) {
    if (!is_asked_by(webhook, options_.ns)) continue;
    any = true;
    all = all && path_in(webhook) == kSecretPaths + secret;
  }
  const bool written = any && all && !secret.empty();
  const Monotonic now = clock_.monotonic();
  const MutexLock lock(mutex_);
  if (!written || secret != path_.secret) written_since_.reset();
  if (written && !written_since_) written_since_ = now;
  path_.secret = secret;
  path_.in_force = written_since_ && now - *written_since_ >= kUntilHeard;
}

}  // namespace compilecache::controller
