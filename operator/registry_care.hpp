#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "kube/cancellation.hpp"
#include "kube/client.hpp"
#include "operator/metrics/cache_gauges.hpp"
#include "operator/registry/own_repositories.hpp"
#include "operator/registry/registry_audit.hpp"
#include "operator/registry/registry_collector.hpp"
#include "operator/registry/registry_usage.hpp"
#include "operator/settings/settings.hpp"
#include "operator/storage/storage_check.hpp"

// Looks after the installation's own registry while this replica leads: audits it, has it
// collected, and says what is wrong with it.
//
//   RegistryCare care(std::move(parts), clock);
//   care.start();
//   care.swept(now, report.freed_bytes);
//   care.trouble("ml/llama").reason;         // "RegistryFull", or ""
//
// Thread-safe. All parts and the clock must outlive it.

namespace compilecache::controller {

struct RegistryCareParts {
  RegistryKeeper& keeper;
  const TokenMinter& minter;
  kube::Client client;
  const ClusterView& view;
  const Settings::Registry& settings;
  std::string ns;                            // the operator's, and the registry's
  std::function<std::string()> authorities;  // that sign what the registry serves, PEM
  std::function<RegistryActivity()> activity;
  std::function<bool()> is_leader;
  std::function<void()> changed;  // trouble() says something else than before
};

// What people are told of it; empty: all is well. Pure.
struct RegistryCondition {
  RegistryHealth health;
  std::optional<WallTime> full_since;
  WallTime since{};  // when we began to look
  WallTime now{};
};
OwnRegistryTrouble registry_trouble(const RegistryCondition& is, const std::string& repository,
                                    const Settings::Registry& settings, const std::string& ns);
std::vector<RegistryGauge> registry_gauges(const RegistryCondition& is);

class RegistryCare {
 public:
  RegistryCare(RegistryCareParts parts, const Clock& clock);
  ~RegistryCare();
  RegistryCare(const RegistryCare&) = delete;
  RegistryCare& operator=(const RegistryCare&) = delete;

  void start();
  void stop();

  // A sweep has deleted archives there; they were the last to name so many bytes.
  void swept(WallTime time, uint64_t bytes) { collector_.deleted(time, bytes); }
  // An agent could not save for want of room, or it could.
  void room(bool full);

  RegistryUsage& usage() { return usage_; }
  [[nodiscard]] const OwnRepositories& repositories() const { return repositories_; }
  [[nodiscard]] OwnRegistryTrouble trouble(const std::string& repository) const;
  [[nodiscard]] std::vector<RegistryGauge> gauges() const;

 private:
  void run();
  void audit();
  [[nodiscard]] RegistryCondition condition() const;

  const RegistryCareParts parts_;
  const Clock& clock_;
  const WallTime since_;
  RegistryUsage usage_;
  const OwnRepositories repositories_;
  RegistryCollector collector_;
  kube::Cancellation stop_;
  RegistryAudit audit_;
  std::thread thread_;
};

}  // namespace compilecache::controller
