#include "operator/certificates/certificate_keeper.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/log.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

// A replica that waits for caBundle to become ready looks more often.
constexpr std::chrono::milliseconds kUntilTrusted{500};

json secret_object(const std::string& ns, const std::string& name,
                   const Certificates& certificates) {
  json data = json::object();
  for (const auto& [entry, text] : secret_entries(certificates)) {
    data[entry] = base64_encode(text);
  }
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", {{"name", name}, {"namespace", ns}}},
          {"type", "Opaque"},
          {"data", std::move(data)}};
}

Certificates certificates_of(const json& secret) {
  std::map<std::string, std::string> entries;
  const json data = secret.value("data", json::object());
  for (const auto& [name, value] : data.items()) {
    if (!value.is_string()) continue;
    if (auto text = base64_decode(value.get<std::string>())) entries[name] = *text;
  }
  return from_secret_entries(entries);
}

bool is_ours(const json& webhook, const std::string& service_namespace) {
  const json service =
      webhook.value("clientConfig", json::object()).value("service", json::object());
  return service.value("name", "") == api::kWebhookService &&
         service.value("namespace", "") == service_namespace;
}

}  // namespace

json bundle_patch(const json& configuration, const std::string& service_namespace,
                  const std::string& bundle) {
  const std::string wanted = base64_encode(bundle);
  json patch = json::array();
  const json webhooks = configuration.value("webhooks", json::array());
  for (size_t i = 0; i < webhooks.size(); ++i) {
    const json& webhook = webhooks[i];
    if (!is_ours(webhook, service_namespace)) continue;
    if (webhook.at("clientConfig").value("caBundle", "") == wanted) continue;
    const std::string path = "/webhooks/" + std::to_string(i);
    patch.push_back(
        {{"op", "test"}, {"path", path + "/name"}, {"value", webhook.value("name", "")}});
    patch.push_back({{"op", "add"}, {"path", path + "/clientConfig/caBundle"}, {"value", wanted}});
  }
  return patch;
}

CertificateKeeper::CertificateKeeper(kube::Client client, CertificateKeeperOptions options,
                                     std::function<bool()> is_leader, const Clock& clock)
    : client_(std::move(client)),
      options_(std::move(options)),
      names_(service_names(options_.ns)),
      is_leader_(std::move(is_leader)),
      clock_(clock) {}

CertificateKeeper::~CertificateKeeper() { stop(); }

void CertificateKeeper::on_change(Handler handler) { handlers_.push_back(std::move(handler)); }

Status CertificateKeeper::prepare() {
  const MutexLock lock(round_);
  auto secret = read_or_make_secret();
  if (!secret) return unexpected(secret.error().with("preparing the certificates"));
  publish(certificates_of(*secret));
  if (auto seen = look_at_bundle(); !seen) {
    log_warn("looking whether API servers trust us", {{"error", seen.error().message}});
  }
  return {};
}

void CertificateKeeper::start() {
  thread_ = std::thread([this] { run(); });
}

void CertificateKeeper::stop() {
  stop_.cancel();
  if (thread_.joinable()) thread_.join();
}

Certificates CertificateKeeper::current() const {
  const MutexLock lock(mutex_);
  return current_.value_or(Certificates{});
}

ServedCertificate CertificateKeeper::served() const {
  const Certificates certificates = current();
  return {certificates.leaf, certificates.bundle()};
}

void CertificateKeeper::run() {
  do {
    if (auto done = round(); !done)
      log_warn("keeping certificates", {{"error", done.error().message}});
  } while (!stop_.wait_for(trusted_ ? options_.policy.poll() : kUntilTrusted));
}

Status CertificateKeeper::round() {
  const MutexLock lock(round_);
  auto secret = read_or_make_secret();
  if (!secret) return unexpected(secret.error());
  publish_usable(*secret);
  if (!is_leader_()) return look_at_bundle();
  const Status before = keep_bundle();
  auto rotated = rotate_as_leader(std::move(*secret), before.has_value());
  if (!rotated) return rotated;
  return keep_bundle();
}

bool CertificateKeeper::is_usable(const Certificates& certificates) const {
  return next_rotation(certificates, names_, options_.policy, clock_.wall()) !=
         RotationStep::kStartAnew;
}

// The served certificates, or new ones if there are none or they are too old. Running pods trust
// the authority that they were created with and no other, so it outlives a Secret that somebody
// deleted.
Result<Certificates> CertificateKeeper::kept_or_made() const {
  Certificates kept = current();
  if (is_usable(kept)) {
    log_warn("the certificates' Secret is missing or damaged; writing what is being served",
             {{"secret", options_.secret}});
    return kept;
  }
  log_info("making an authority and a certificate", {{"secret", options_.secret}});
  return make_certificates(names_, options_.policy, clock_.wall());
}

Result<json> CertificateKeeper::read_or_make_secret() {
  auto secret = client_.get(kube::resources::kSecrets, options_.ns, options_.secret);
  if (secret || secret.error().code != ErrorCode::kNotFound) return secret;
  auto made = kept_or_made();
  if (!made) return unexpected(made.error());
  auto created =
      client_.create(kube::resources::kSecrets, secret_object(options_.ns, options_.secret, *made));
  if (created || created.error().code != ErrorCode::kAlreadyExists) return created;
  return client_.get(kube::resources::kSecrets, options_.ns, options_.secret);
}

Status CertificateKeeper::rotate_as_leader(json secret, bool bundle_is_right) {
  while (true) {
    const WallTime now = clock_.wall();
    const Certificates before = certificates_of(secret);
    const auto step = next_rotation(before, names_, options_.policy, now);
    if (!step) return {};
    // Nobody would trust what the new authority signs.
    if (*step == RotationStep::kSwitchCa && !bundle_is_right) return {};
    const auto after = *step == RotationStep::kStartAnew
                           ? kept_or_made()
                           : rotate(before, *step, names_, options_.policy, now);
    if (!after) return unexpected(after.error());
    secret["data"] = secret_object(options_.ns, options_.secret, *after).at("data");
    auto written = client_.update(kube::resources::kSecrets, secret);
    if (!written) return unexpected(written.error().with("rotating certificates"));
    log_info("rotated certificates", {{"step", to_string(*step)}});
    secret = std::move(*written);
    publish(*after);
  }
}

// The changes that the configuration needs; empty too when it is not installed, since there is no
// injection then.
Result<json> CertificateKeeper::due_bundle_patch() {
  auto configuration = client_.get(kube::resources::kMutatingWebhookConfigurations, "",
                                   options_.webhook_configuration);
  if (configuration) return bundle_patch(*configuration, options_.ns, current().bundle());
  if (configuration.error().code == ErrorCode::kNotFound) return json::array();
  return unexpected(configuration.error().with("reading caBundle"));
}

Status CertificateKeeper::keep_bundle() {
  auto patch = due_bundle_patch();
  if (!patch) return unexpected(patch.error());
  if (!patch->empty()) {
    auto patched = client_.patch(kube::resources::kMutatingWebhookConfigurations, "",
                                 options_.webhook_configuration, kube::PatchType::kJson, *patch);
    if (!patched) return unexpected(patched.error().with("writing caBundle"));
    log_info("wrote caBundle", {{"configuration", options_.webhook_configuration}});
  }
  trusted_ = true;
  return {};
}

Status CertificateKeeper::look_at_bundle() {
  auto patch = due_bundle_patch();
  if (!patch) return unexpected(patch.error());
  if (patch->empty()) trusted_ = true;
  return {};
}

// A damaged Secret changes nothing: the last served certificates stay until it is repaired.
void CertificateKeeper::publish_usable(const json& secret) {
  const Certificates read = certificates_of(secret);
  if (is_usable(read) || !is_usable(current())) publish(read);
}

void CertificateKeeper::publish(const Certificates& certificates) {
  {
    const MutexLock lock(mutex_);
    if (current_ && secret_entries(*current_) == secret_entries(certificates)) return;
    current_ = certificates;
  }
  for (const Handler& handler : handlers_) handler({certificates.leaf, certificates.bundle()});
}

}  // namespace compilecache::controller
