#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "operator/agents/agent_api.hpp"

// What each call of the agent API does; agent_api.cpp does the HTTP around it. Thread-safe; calls
// block on the API server.

namespace compilecache::controller {

// The live pod whose token it was, and its CompileCache.
struct Caller {
  TokenIdentity identity;
  std::shared_ptr<const PodView> pod;
  std::shared_ptr<const api::CompileCache> cache;
  bool sweeper = false;  // a sweep Job's pod, not an application's

  [[nodiscard]] const std::string& ns() const { return identity.ns; }
  // "namespace/name" of the CompileCache
  [[nodiscard]] std::string key() const { return cache->metadata.key(); }
};

class AgentHandlers {
 public:
  AgentHandlers(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks,
                const Clock& clock);

  // kUnauthorized, kForbidden (no pod of ours), kNotFound (its CompileCache is gone), kUnavailable.
  Result<Caller> caller(std::string_view token, std::string_view peer);

  Result<api::LoadAnswer> load(const Caller& caller, const api::LoadRequest& request);
  Status loaded(const Caller& caller, const api::LoadedReport& report);
  Result<api::SaveAnswer> request_save(const Caller& caller, const api::SaveRequest& request);
  Status renew(const Caller& caller, const std::string& id, const api::RenewRequest& request);
  Result<api::CommitAnswer> commit(const Caller& caller, const std::string& id,
                                   const api::CommitRequest& request);
  Status release(const Caller& caller, const std::string& id);
  Status effect(const Caller& caller, const api::EffectReport& report);
  Result<api::SweepAnswer> sweep(const Caller& caller, const api::SweepRequest& request);

  void take_over();
  [[nodiscard]] bool is_leader() const { return !hooks_.is_leader || hooks_.is_leader(); }

 private:
  [[nodiscard]] Result<std::shared_ptr<const PodView>> pod_of(const TokenIdentity& identity) const;
  [[nodiscard]] Result<api::ArchiveKey> key_of(const Caller& caller) const;
  [[nodiscard]] std::string product_of(const Caller& caller) const;
  [[nodiscard]] api::ArchiveKey displayable_key(const Caller& caller) const;
  [[nodiscard]] SaveContext save_context(const Caller& caller, const api::ArchiveKey& key) const;
  [[nodiscard]] Result<api::ArchiveKey> app_key(const Caller& caller) const;
  [[nodiscard]] bool compiles_on(const std::string& ns, const std::string& name,
                                 const std::string& uid) const;
  void judge_first(const Caller& caller, const api::LoadAnswer& decided,
                   struct LoadSituation& situation);
  void note_start(const Caller& caller, std::string archive, const std::string& manifest);
  void distrust(const Caller& caller, const api::LoadedReport& report);
  std::string doubt_head(const Caller& caller, const api::ArchiveKey& key,
                         const api::SaveRequest& request);
  std::optional<double> seconds_since_grant(const std::string& id);
  void learn_owner(const Caller& caller, const api::EffectReport& report);
  void count_save(const Caller& caller, const api::EffectReport& report);
  [[nodiscard]] double compile_seconds_of(const Caller& caller, const std::string& archive,
                                          const std::string& manifest) const;
  [[nodiscard]] std::optional<double> worth_of(const Caller& caller) const;
  [[nodiscard]] double seconds_saved(const Caller& caller, api::Effect effect,
                                     const api::EffectReport& report) const;
  void event(const Caller& caller, bool warning, const std::string& reason,
             const std::string& message);
  // Saves that hold a lock and were heard of lately; what dead ones left is taken back.
  Result<std::vector<SaveInFlight>> in_flight(
      const Caller& caller, const std::vector<api::CompileCacheArchive>& archives);
  Status adopt(const Caller& caller, const api::SweepRequest& request);
  Status take_in(const api::CompileCacheArchive& archive, const std::set<std::string>& condemned);
  void note_heads(const Caller& caller, const std::vector<api::CompileCacheArchive>& archives);
  Status miss_blobs(const Caller& caller, const std::vector<api::CompileCacheArchive>& archives,
                    const api::SweepRequest& page);
  Result<api::SweepAnswer> sweep_begins(const Caller& caller);
  Status take_verdicts(const Caller& caller, const api::SweepRequest& request,
                       std::vector<api::CompileCacheArchive>& archives);
  Status take_inventory(const Caller& caller, const api::SweepRequest& request);
  Status sweep_ends(const Caller& caller, const api::SweepRequest& request);

  AgentApiParts parts_;
  const Settings& settings_;
  const AgentApiHooks hooks_;
  const Clock& clock_;
  const Monotonic leading_since_;
  std::mutex mutex_;
  std::map<std::string, Monotonic> granted_;  // save's id: when
  // Manifests that a sweep Job must find, by CompileCache: heads when it began.
  std::map<std::string, std::set<std::string>> heads_at_begin_;
};

}  // namespace compilecache::controller
