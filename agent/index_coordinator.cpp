#include "agent/coordinator.hpp"
#include "agent/index_lookup.hpp"
#include "api/outcomes.hpp"
#include "base/time_format.hpp"
#include "store/offline_index.hpp"
#include "store/upkeep.hpp"

namespace compilecache::agent {
namespace {

constexpr int64_t kLockTimeoutMs = 30'000;

class IndexCoordinator : public Coordinator {
 public:
  IndexCoordinator(const api::AgentConfig& config, store::Store& store, std::string node,
                   const Clock& clock)
      : config_(config), store_(store), node_(std::move(node)), clock_(clock) {}

  // The loader looks into the index itself when nobody answers.
  Result<api::LoadAnswer> load(const api::LoadRequest&, Patience) override {
    return fail(ErrorCode::kUnavailable, "asking for the archive: no operator is configured");
  }
  Status loaded(const api::LoadedReport&, Patience) override { return {}; }
  Status effect(const api::EffectReport&, Patience) override { return {}; }
  Status renew_save(const std::string&, const api::RenewRequest&, Patience) override { return {}; }
  Status release_save(const std::string&, Patience) override { return {}; }

  Result<api::SaveAnswer> begin_save(const api::SaveRequest& request, Patience) override {
    const auto key = local_key(config_, store_, node_);
    if (!key) return unexpected(key.error());
    // No Job has done it.
    if (store::Upkeep* upkeep = store_.upkeep()) {
      const store::StoreOwner owner{config_.sweep.cluster_uid, config_.ns, config_.cache_uid};
      if (const auto made = upkeep->prepare(owner, false); !made) return unexpected(made.error());
    }
    api::SaveAnswer answer;
    answer.decision = api::SaveDecision::kGranted;
    answer.id = "by-hand";
    answer.lock_timeout_ms = kLockTimeoutMs;
    answer.key = api::with_cpu(*key, request.cpu);
    answer.archive = api::archive_name(config_.cache, answer.key);
    answer.generation = 1;
    const auto index = store::read_index(store_);
    if (!index) return unexpected(index.error());
    head_.clear();
    if (const auto head = find_of_key(*index, answer.key)) {
      head_ = head->entry.digest;
      answer.generation = static_cast<int64_t>(head->entry.generation()) + 1;
      if (!request.refresh && !is_lost(request)) answer.parent_digest = head->entry.digest;
      if (!request.corrupt_digest.empty()) answer.condemned = {request.corrupt_digest};
    }
    granted_ = answer;
    return answer;
  }

  // Nobody else counts who came first.
  Result<api::CommitAnswer> commit_save(const std::string&, const api::CommitRequest& request,
                                        Patience) override {
    const api::CommitAnswer committed{request.manifest_digest, granted_.generation,
                                      format_time(clock_.wall())};
    store::OfflineIndex* index = store_.offline_index();
    if (index == nullptr) return committed;
    const auto size = store_.size_of(request.manifest_digest);
    if (!size) return unexpected(size.error());
    const auto extended =
        index->extend_index(head_, {request.manifest_digest, *size,
                                    index_annotations(granted_.archive, granted_.generation,
                                                      committed.saved_at, granted_.key)});
    if (!extended) return unexpected(extended.error());
    return committed;
  }

  Result<api::SweepAnswer> sweep(const api::SweepRequest&, Patience) override {
    return fail(ErrorCode::kInvalid,
                "sweeping: only the operator knows which archives live, and no address of one is "
                "configured");
  }

  Result<api::RegistryToken> registry_token(const api::RegistryTokenRequest&, Patience) override {
    return fail(ErrorCode::kNotFound,
                "asking for a token of the installation's registry: only the operator mints them, "
                "and no address of one is configured");
  }

 private:
  // Nobody else can be asked whether the head is whole; what is missing is looked for once more.
  [[nodiscard]] bool is_lost(const api::SaveRequest& request) const {
    if (!request.corrupt_digest.empty()) return true;
    return !request.missing_digest.empty() && is_missing(request.missing_digest);
  }

  [[nodiscard]] bool is_missing(const std::string& digest) const {
    const auto size = store_.size_of(digest);
    return !size && size.error().code == ErrorCode::kNotFound;
  }

  const api::AgentConfig config_;
  store::Store& store_;
  const std::string node_;
  const Clock& clock_;
  api::SaveAnswer granted_;
  std::string head_;  // the manifest that the index named then
};

}  // namespace

std::unique_ptr<Coordinator> make_index_coordinator(const api::AgentConfig& config,
                                                    store::Store& store, std::string node,
                                                    const Clock& clock) {
  return std::make_unique<IndexCoordinator>(config, store, std::move(node), clock);
}

}  // namespace compilecache::agent
