#include "operator/registry/registry_keeper.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/base64.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/time_format.hpp"
#include "kube/json.hpp"
#include "operator/certificates/x509.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPoll{10};
constexpr char kOpaque[] = "Opaque";
constexpr char kTls[] = "kubernetes.io/tls";

std::string entry(const json& secret, const char* name) {
  const auto text = base64_decode(kube::string_at(secret, {"data", name}));
  return text.value_or("");
}

json encoded(const std::map<std::string, std::string>& entries) {
  json data = json::object();
  for (const auto& [name, text] : entries) data[name] = base64_encode(text);
  return data;
}

TokenAuthority authority_of(const json& secret) {
  std::map<std::string, std::string> entries;
  const json data = secret.value("data", json::object());
  for (const auto& [name, value] : data.items()) {
    entries[name] = entry(secret, name.c_str());
  }
  return from_authority_entries(entries);
}

bool has_names(const CertificateFacts& facts, const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::find(facts.dns_names.begin(), facts.dns_names.end(), name) != facts.dns_names.end();
  });
}

// Whether what the registry serves is to be made anew.
bool is_due(const KeyPair& leaf, const KeyPair& authority, const std::vector<std::string>& names,
            const RotationPolicy& policy, WallTime now) {
  const auto facts = read_certificate(leaf.certificate);
  return !facts || facts->not_after - now < policy.leaf_renew_before || !has_names(*facts, names) ||
         !belongs_together(leaf, authority.certificate);
}

}  // namespace

std::vector<std::string> registry_names(const std::string& ns, const std::string& name) {
  return {name + "." + ns + ".svc", name + "." + ns + ".svc.cluster.local", name + "." + ns, name};
}

std::string mounted_hash(const std::string& accepted, const std::string& served) {
  return sha256_hex(sha256_hex(accepted) + sha256_hex(served)).substr(0, 32);
}

bool runs_as_written(const json& deployment) {
  const json status = deployment.value("status", json::object());
  const auto number = [&](const char* name) { return status.value(name, 0); };
  return status.value("observedGeneration", 0) >=
             deployment.value("metadata", json::object()).value("generation", 1) &&
         number("replicas") == 1 && number("updatedReplicas") == 1 && number("readyReplicas") == 1;
}

RegistryKeeper::RegistryKeeper(kube::Client client, RegistryKeeperOptions options,
                               RegistryKeeperParts parts, const Clock& clock)
    : client_(std::move(client)),
      options_(std::move(options)),
      parts_(std::move(parts)),
      clock_(clock) {}

RegistryKeeper::~RegistryKeeper() { stop(); }

void RegistryKeeper::start() {
  thread_ = std::thread([this] {
    do {
      if (auto done = round(); !done)
        log_warn("keeping the registry", {{"error", done.error().message}});
    } while (!stop_.wait_for(kPoll));
  });
}

void RegistryKeeper::stop() {
  stop_.cancel();
  if (thread_.joinable()) thread_.join();
}

Status RegistryKeeper::round() {
  const MutexLock lock(round_);
  auto authority = read_authority();
  if (!authority) return unexpected(authority.error().with("reading the tokens' authority"));
  // One that is of no use is the leader's to replace; others go on with the key that they have.
  const bool leads = parts_.is_leader();
  if (auto used = parts_.minter.use(*authority); !used && !leads) return used;
  return leads ? rotate(std::move(*authority)) : Status();
}

// What the registry accepts is written before what follows from it is signed; it is started anew in
// between, which takes until a later round. What is of no use is never told to it.
Status RegistryKeeper::rotate(TokenAuthority authority) {
  while (true) {
    const bool usable = is_usable(authority, clock_.wall());
    const auto knows = usable ? tell_registry(authority) : Result<bool>(false);
    if (!knows) return unexpected(knows.error());
    const WallTime now = clock_.wall();
    const auto step = next_authority_step(authority, options_.policy, *knows, now);
    if (!step) return {};
    auto next = rotate_authority(authority, *step, options_.policy, now);
    if (!next) return unexpected(next.error());
    if (auto kept = keep_authority(*next, *step); !kept) return kept;
    authority = std::move(*next);
    if (auto used = parts_.minter.use(authority); !used) return used;
  }
}

// Whether the registry that runs knows this authority; it is started anew where it does not.
Result<bool> RegistryKeeper::tell_registry(const TokenAuthority& authority) {
  const auto accepted = keep_accepted(authority);
  if (!accepted) return unexpected(accepted.error());
  const auto served = keep_served();
  if (!served) return unexpected(served.error());
  return keep_pod(mounted_hash(*accepted, *served));
}

Status RegistryKeeper::keep_authority(const TokenAuthority& authority, AuthorityStep step) {
  const std::string name = options_.name + "-authority";
  auto secret = client_.get(kube::resources::kSecrets, options_.ns, name);
  if (!secret) return unexpected(secret.error());
  if (auto written = write_secret(std::move(*secret), encoded(authority_entries(authority)));
      !written) {
    return unexpected(written.error().with("rotating the authority of the registry's tokens"));
  }
  if (step == AuthorityStep::kStartAnew) {
    log_warn(
        "the authority of the registry's tokens had ended or could not be read, and is replaced; "
        "the registry is started anew. Unless it was you, find out who wrote to that Secret: "
        "whoever may can mint tokens",
        {{"secret", name}});
  } else {
    log_info("rotated the authority of the registry's tokens", {{"step", to_string(step)}});
  }
  return {};
}

Result<json> RegistryKeeper::read_or_make(const std::string& name, const std::string& type,
                                          const std::function<Result<json>()>& data) {
  auto secret = client_.get(kube::resources::kSecrets, options_.ns, name);
  if (secret || secret.error().code != ErrorCode::kNotFound) return secret;
  auto made = data();
  if (!made) return made;
  auto created = client_.create(kube::resources::kSecrets,
                                {{"apiVersion", "v1"},
                                 {"kind", "Secret"},
                                 {"metadata", {{"name", name}, {"namespace", options_.ns}}},
                                 {"type", type},
                                 {"data", std::move(*made)}});
  if (created) log_info("made a Secret for the registry", {{"secret", name}});
  if (created || created.error().code != ErrorCode::kAlreadyExists) return created;
  return client_.get(kube::resources::kSecrets, options_.ns, name);
}

Result<TokenAuthority> RegistryKeeper::read_authority() {
  const auto secret = read_or_make(options_.name + "-authority", kOpaque, [this]() -> Result<json> {
    auto made = make_token_authority(options_.policy, clock_.wall());
    if (!made) return unexpected(made.error());
    return encoded(authority_entries(*made));
  });
  if (!secret) return unexpected(secret.error());
  return authority_of(*secret);
}

Status RegistryKeeper::write_secret(json secret, const json& data) {
  secret["data"] = data;
  auto written = client_.update(kube::resources::kSecrets, secret);
  if (written) return {};
  // The operator has no right to delete it, and who made it so may have had a reason.
  if (secret.value("immutable", false)) {
    const std::string name = kube::string_at(secret, {"metadata", "name"});
    return unexpected(written.error().with(
        "the Secret " + name + " is immutable, and cannot be renewed before somebody deletes it " +
        "(kubectl delete secret -n " + options_.ns + " " + name + "); it is then made anew"));
  }
  return unexpected(written.error());
}

Result<std::string> RegistryKeeper::keep_accepted(const TokenAuthority& authority) {
  const std::string bundle = authority.bundle();
  const auto anew = [&]() -> Result<json> {
    const std::string secret = random_id(parts_.random) + random_id(parts_.random);
    return encoded({{"ca.crt", bundle}, {"http-secret", secret}});
  };
  auto secret = read_or_make(options_.name + "-auth", kOpaque, anew);
  if (!secret) return unexpected(secret.error());
  if (entry(*secret, "ca.crt") == bundle && !entry(*secret, "http-secret").empty()) return bundle;
  auto data = anew();
  if (const std::string kept = entry(*secret, "http-secret"); !kept.empty()) {
    (*data)["http-secret"] = base64_encode(kept);
  }
  if (auto written = write_secret(std::move(*secret), *data); !written) {
    return unexpected(written.error().with("telling the registry whose tokens to accept"));
  }
  return bundle;
}

Result<std::string> RegistryKeeper::keep_served() {
  const std::string name = options_.name + "-tls";
  const KeyPair authority = parts_.serving_authority();
  if (authority.empty()) {
    const auto secret = client_.get(kube::resources::kSecrets, options_.ns, name);
    if (secret) return entry(*secret, "tls.crt");
    if (secret.error().code == ErrorCode::kNotFound) return std::string();
    return unexpected(secret.error());
  }
  const auto names = registry_names(options_.ns, options_.name);
  const RotationPolicy& policy = options_.serving;
  const WallTime now = clock_.wall();
  const auto anew = [&]() -> Result<json> {
    auto leaf = issue_certificate(
        {names.front(), names, now - policy.backdate, now + policy.leaf_life}, authority);
    if (!leaf) return unexpected(leaf.error());
    return encoded({{"tls.crt", leaf->certificate}, {"tls.key", leaf->key}});
  };
  auto secret = read_or_make(name, kTls, anew);
  if (!secret) return unexpected(secret.error());
  const KeyPair leaf{entry(*secret, "tls.crt"), entry(*secret, "tls.key")};
  if (!is_due(leaf, authority, names, policy, now)) return leaf.certificate;
  const auto data = anew();
  if (!data) return unexpected(data.error());
  if (auto written = write_secret(std::move(*secret), *data); !written) {
    return unexpected(written.error().with("renewing the registry's certificate"));
  }
  log_info("renewed the registry's certificate");
  return entry({{"data", *data}}, "tls.crt");
}

// Whether the registry that runs has read what it is to run with.
Result<bool> RegistryKeeper::keep_pod(const std::string& mounted) {
  const auto deployment = client_.get(kube::resources::kDeployments, options_.ns, options_.name);
  if (!deployment) {
    if (deployment.error().code == ErrorCode::kNotFound) return false;
    return unexpected(deployment.error());
  }
  const auto annotation = [&](const char* name) {
    return kube::string_at(*deployment, {"spec", "template", "metadata", "annotations", name});
  };
  const bool runs = annotation(kMountedAnnotation) == mounted && runs_as_written(*deployment);
  const auto told = parse_time(annotation(kStartedAnnotation));
  {
    const MutexLock lock(mutex_);
    started_ = runs && told ? std::optional(*told) : std::nullopt;
  }
  if (annotation(kMountedAnnotation) == mounted) return runs;
  if (auto written = write_template({{kMountedAnnotation, mounted}}); !written) {
    return unexpected(written.error());
  }
  log_info("the registry is started anew, since what it mounts has changed",
           {{"deployment", options_.name}});
  return false;
}

Status RegistryKeeper::write_template(json annotations) {
  annotations[kStartedAnnotation] = format_time(clock_.wall());
  const auto patched = client_.patch(
      kube::resources::kDeployments, options_.ns, options_.name, kube::PatchType::kMerge,
      {{"spec", {{"template", {{"metadata", {{"annotations", std::move(annotations)}}}}}}}});
  if (!patched) return unexpected(patched.error().with("starting the registry anew"));
  const MutexLock lock(mutex_);
  started_.reset();
  return {};
}

Status RegistryKeeper::start_anew() {
  const MutexLock lock(round_);
  return write_template(json::object());
}

std::optional<WallTime> RegistryKeeper::started() const {
  const MutexLock lock(mutex_);
  return started_;
}

}  // namespace compilecache::controller
