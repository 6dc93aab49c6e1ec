#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "kube/cancellation.hpp"
#include "kube/client.hpp"
#include "operator/certificates/certificates.hpp"
#include "operator/registry/registry_restart.hpp"
#include "operator/registry/token_authority.hpp"
#include "operator/registry/token_minter.hpp"

// Keeps what the installation's own registry mounts, three Secrets of the operator's namespace, and
// makes its pod anew when what it has read at its start is no longer what they hold:
//
// - NAME-authority: the authority of tokens with its key, the operator's alone
// - NAME-auth: in ca.crt the authorities that the registry accepts; in http-secret its own
// - NAME-tls: what it serves, signed by the operator's ordinary authority
//
//   RegistryKeeper keeper(client, {.ns = ns, .name = "compilecache-registry"}, parts, clock);
//   keeper.start();
//
// Every replica follows, the leader rotates and writes, and replaces an authority that cannot be
// read (not one that it could not ask for).
// The pod's template carries a hash of what it shall run with (kMountedAnnotation); changing it is
// what makes the pod anew. Meanwhile the Deployment NAME-reader serves reads, if it is installed
// and can mount the volume (registry_restart.hpp). Thread-safe after construction.

namespace compilecache::controller {

struct RegistryKeeperOptions {
  std::string ns;
  std::string name;  // of the Service and the Deployment
  AuthorityPolicy policy = {};
  RotationPolicy serving = {};  // of the certificate that the registry serves
};

struct RegistryKeeperParts {
  TokenMinter& minter;
  std::function<bool()> is_leader;
  // The authority that signs what the registry serves; empty: somebody else keeps that Secret.
  std::function<KeyPair()> serving_authority;
  Random random;
};

class RegistryKeeper {
 public:
  RegistryKeeper(kube::Client client, RegistryKeeperOptions options, RegistryKeeperParts parts,
                 const Clock& clock);
  ~RegistryKeeper();
  RegistryKeeper(const RegistryKeeper&) = delete;
  RegistryKeeper& operator=(const RegistryKeeper&) = delete;

  // Minting begins with the first round.
  void start();
  void stop();
  // Looks now, and does what is due.
  Status round();
  // Has the pod made anew: in the next rounds, once the reader serves.
  Status start_anew();
  // When the pod that runs was told to start, as of the last round of a leader; nothing: none is
  // ready, or it is about to be restarted.
  [[nodiscard]] std::optional<WallTime> started() const;

 private:
  Result<nlohmann::json> read_or_make(const std::string& name, const std::string& type,
                                      const std::function<Result<nlohmann::json>()>& data);
  Result<TokenAuthority> read_authority();
  Status rotate(TokenAuthority authority);
  Result<bool> tell_registry(const TokenAuthority& authority);
  Status keep_authority(const TokenAuthority& authority, AuthorityStep step);
  Status write_secret(nlohmann::json secret, const nlohmann::json& data);
  Result<std::string> keep_accepted(const TokenAuthority& authority);
  Result<std::string> keep_served();
  Result<bool> keep_pod(const std::string& mounted);
  Result<nlohmann::json> read_reader();
  bool is_missing(const Error& error);
  Status take(RestartStep step, const RestartFacts& facts, const std::string& mounted);
  Status start_reader(const RestartFacts& facts, const std::string& mounted);
  Status stop_reader();
  Result<bool> patch_reader(const nlohmann::json& patch);
  Status restart(const RestartFacts& facts, const std::string& mounted);
  Status write_template(nlohmann::json annotations, WallTime started);
  void set_started(std::optional<WallTime> started);

  const kube::Client client_;
  const RegistryKeeperOptions options_;
  const RegistryKeeperParts parts_;
  const Clock& clock_;
  Mutex round_;  // one at a time
  mutable Mutex mutex_;
  std::optional<WallTime> started_ GUARDED_BY(mutex_);
  std::atomic<bool> restarting_ = false;  // so that the next step is taken soon
  std::atomic<bool> told_refused_ = false;
  kube::Cancellation stop_;
  std::thread thread_;
};

// The DNS names of the registry's Service, for its certificate.
std::vector<std::string> registry_names(const std::string& ns, const std::string& name);

// What the pod's template says about what it mounts; the same for the same contents. Pure.
std::string mounted_hash(const std::string& accepted, const std::string& served);

}  // namespace compilecache::controller
