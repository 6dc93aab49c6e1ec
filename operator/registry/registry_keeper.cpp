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

constexpr std::chrono::seconds kPoll{10}, kRestartingPoll{2};
constexpr char kReaderSuffix[] = "-reader";
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
    } while (!stop_.wait_for(restarting_ ? kRestartingPoll : kPoll));
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
  if (!leads) restarting_ = false;
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
        "the registry is restarted. Unless it was you, find out who wrote to that Secret: "
        "anyone who may do that can mint tokens",
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
        "(kubectl delete secret -n " + options_.ns + " " + name + "); it is then recreated"));
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

// Whether the registry that runs has read what it is to run with. Takes one step of a restart.
Result<bool> RegistryKeeper::keep_pod(const std::string& mounted) {
  const auto deployment = client_.get(kube::resources::kDeployments, options_.ns, options_.name);
  if (!deployment) {
    if (deployment.error().code == ErrorCode::kNotFound) return false;
    return unexpected(deployment.error());
  }
  const auto reader = read_reader();
  if (!reader) return unexpected(reader.error());
  const RestartFacts facts = restart_facts(*deployment, *reader, mounted, clock_.wall());
  set_started(facts.runs && !facts.due ? facts.started : std::nullopt);
  const RestartStep step = next_restart_step(facts);
  if (auto taken = take(step, facts, mounted); !taken) return unexpected(taken.error());
  restarting_ = step != RestartStep::kNone;
  return facts.runs && facts.mounted;
}

// Null: there is none.
Result<json> RegistryKeeper::read_reader() {
  auto reader =
      client_.get(kube::resources::kDeployments, options_.ns, options_.name + kReaderSuffix);
  if (reader || !is_missing(reader.error())) return reader;
  return json();
}

// Not installed, or the operator's Role is of a release that had none.
bool RegistryKeeper::is_missing(const Error& error) {
  if (error.code == ErrorCode::kForbidden && !told_refused_.exchange(true)) {
    log_warn("the registry is restarted without a pod that serves reads meanwhile",
             {{"error", error.message}});
  }
  return error.code == ErrorCode::kNotFound || error.code == ErrorCode::kForbidden;
}

Status RegistryKeeper::take(RestartStep step, const RestartFacts& facts,
                            const std::string& mounted) {
  switch (step) {
    case RestartStep::kNone:
    case RestartStep::kWait:
      return {};
    case RestartStep::kStartReader:
      return start_reader(facts, mounted);
    case RestartStep::kRestart:
      return restart(facts, mounted);
    case RestartStep::kRestartAlone:
      if (facts.reader_scaled_up) {
        log_warn(
            "the registry is restarted without the pod that serves reads meanwhile, which did not "
            "become ready: pods that start now start cold; see its events",
            {{"deployment", options_.name + kReaderSuffix}});
        if (auto stopped = stop_reader(); !stopped) return stopped;
      }
      return restart(facts, mounted);
    case RestartStep::kStopReader:
      return stop_reader();
  }
  return {};
}

Status RegistryKeeper::start_reader(const RestartFacts& facts, const std::string& mounted) {
  const json annotations = {{kMountedAnnotation, mounted}};
  const auto started = patch_reader(
      {{"metadata", {{"annotations", {{kRequestedAnnotation, format_time(clock_.wall())}}}}},
       {"spec", {{"replicas", 1}, {"template", {{"metadata", {{"annotations", annotations}}}}}}}});
  if (!started) return unexpected(started.error());
  if (!*started) return restart(facts, mounted);
  log_info("a second pod is started, which serves reads while the registry is restarted",
           {{"deployment", options_.name + kReaderSuffix}});
  return {};
}

Status RegistryKeeper::stop_reader() {
  const auto stopped = patch_reader({{"spec", {{"replicas", 0}}}});
  return stopped ? Status() : unexpected(stopped.error());
}

// False: there is no reader.
Result<bool> RegistryKeeper::patch_reader(const json& patch) {
  const auto patched = client_.patch(kube::resources::kDeployments, options_.ns,
                                     options_.name + kReaderSuffix, kube::PatchType::kMerge, patch);
  if (patched) return true;
  if (is_missing(patched.error())) return false;
  return unexpected(patched.error().with("scaling the registry's reader"));
}

// Not before the time at which the restart was asked for, by the clock of whichever replica: one
// that is behind would restart it again and again.
Status RegistryKeeper::restart(const RestartFacts& facts, const std::string& mounted) {
  auto done = write_template({{kMountedAnnotation, mounted}},
                             std::max(facts.now, facts.requested.value_or(facts.now)));
  if (done && !facts.mounted) {
    log_info("the registry is restarted, since what it mounts has changed",
             {{"deployment", options_.name}});
  }
  return done;
}

Status RegistryKeeper::write_template(json annotations, WallTime started) {
  annotations[kStartedAnnotation] = format_time(started);
  const auto patched = client_.patch(
      kube::resources::kDeployments, options_.ns, options_.name, kube::PatchType::kMerge,
      {{"spec", {{"template", {{"metadata", {{"annotations", std::move(annotations)}}}}}}}});
  if (!patched) return unexpected(patched.error().with("restarting the registry"));
  set_started(std::nullopt);
  return {};
}

Status RegistryKeeper::start_anew() {
  const MutexLock lock(round_);
  const WallTime now = clock_.wall();
  const auto asked =
      patch_reader({{"metadata", {{"annotations", {{kRequestedAnnotation, format_time(now)}}}}}});
  if (!asked) return unexpected(asked.error());
  if (!*asked) return write_template(json::object(), now);
  set_started(std::nullopt);
  return {};
}

void RegistryKeeper::set_started(std::optional<WallTime> started) {
  const MutexLock lock(mutex_);
  started_ = started;
}

std::optional<WallTime> RegistryKeeper::started() const {
  const MutexLock lock(mutex_);
  return started_;
}

}  // namespace compilecache::controller
