#include "agent/load/load_choice.hpp"

#include <algorithm>

#include "agent/cpu_code.hpp"
#include "agent/index_lookup.hpp"
#include "agent/store_trouble.hpp"
#include "api/load_budget.hpp"
#include "base/log.hpp"
#include "store/offline_index.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// An answer is worth less than a start: connecting may take 2 s, all of it 3 s.
constexpr Patience kAnswerTime{3000};
// The operator may also ask for a short wait until the node's GPU label is there; its own setting
// (agent.labelWait) is 10 s.
constexpr milliseconds kLabelWait{15'000};
constexpr milliseconds kShortestPoll{50};
// The least time for a load, which is enough for a small archive.
constexpr milliseconds kShortestLoad{1'000};
// A change of leader takes 15 s, where the old one died.
constexpr milliseconds kLongestSilence{30'000};
constexpr milliseconds kPauseUnanswered{500};
constexpr const char* kNoAnswer = "operator_unreachable";
constexpr const char* kPlaceWait = "too_many_loads";  // the operator's word

// The operator knows this pod and says no; anything else is not an answer to believe.
bool refused(ErrorCode code) {
  return code == ErrorCode::kForbidden || code == ErrorCode::kNotFound;
}

class Chooser {
 public:
  Chooser(const api::AgentConfig& config, store::Store& store, const std::string& node,
          Coordinator& coordinator, const Clock& clock, const Sleep& sleep,
          const std::function<void()>& alive)
      : config_(config),
        store_(store),
        node_(node),
        coordinator_(coordinator),
        clock_(clock),
        sleep_(sleep),
        alive_(alive) {}

  LoadChoice run() {
    choice_.budget = config_.load.timeout;
    choice_.status.host_cpu = cpu_name(this_host(config_));
    choose();
    choice_.status.waited_ms = waited_.count();
    choice_.status.waited_for = waited_for_;
    choice_.status.asked_ms = asked_.count();
    return std::move(choice_);
  }

 private:
  void choose() {
    if (!config_.ask_operator && !config_.operator_address.empty()) {
      return look_into_index(
          {ErrorCode::kUnavailable,
           "the operator never received a call from earlier pods of this namespace, so it is "
           "not asked; see docs/run/network-policy.md"});
    }
    if (const auto answer = ask()) {
      choice_.operator_answered = true;
      take(*answer);
    } else if (refused(answer.error().code)) {
      choice_.operator_answered = true;
      none(answer.error().code == ErrorCode::kNotFound ? "cache_gone" : "refused",
           answer.error().message);
    } else {
      look_into_index(answer.error());
    }
  }

  Result<api::LoadAnswer> ask() {
    // The operator decides by what we say we have waited; this is for one that forgets us.
    const milliseconds bound = config_.load.wait_for_first + kLabelWait + config_.load.timeout;
    while (true) {
      alive_();
      const Monotonic began = clock_.monotonic();
      auto answer = coordinator_.load(
          {config_.cache, waited_.count(), for_place_.count(), choice_.status.host_cpu},
          kAnswerTime);
      const auto took = since(began);
      if (!answer && may_ask_again(answer.error().code) && sleep_(kPauseUnanswered)) {
        silent_ += std::max(kPauseUnanswered, since(began));
        waited_ += std::max(kPauseUnanswered, since(began));
        waited_for_ = kNoAnswer;
        continue;
      }
      if (!answer || answer->decision != api::LoadDecision::kWait) {
        asked_ += took;
        return answer;
      }
      silent_ = milliseconds(0);
      const auto pause = std::max(milliseconds(answer->retry_after_ms), kShortestPoll);
      waited_for_ = answer->reason;
      if (waited_ + pause > bound || !sleep_(pause)) {
        answer->decision = api::LoadDecision::kNone;
        answer->reason = "waited_enough";
        return answer;
      }
      if (waited_.count() == 0) {
        log_info("the operator says to wait", {{"reason", answer->reason}});
      }
      // Counted by the clock, since a busy machine or operator makes a wait longer than intended.
      const auto passed = std::max(pause, since(began));
      waited_ += passed;
      if (answer->reason == kPlaceWait) for_place_ += passed;
    }
  }

  // A pod that may wait for another one's compile also waits for an operator that is busy or
  // changes its leader. Otherwise one late answer would make many pods compile the same.
  [[nodiscard]] bool may_ask_again(ErrorCode code) const {
    const auto longest = std::min(config_.load.wait_for_first, kLongestSilence);
    return (code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout) && silent_ < longest &&
           waited_ < config_.load.wait_for_first;
  }

  [[nodiscard]] milliseconds since(Monotonic began) const {
    return std::chrono::duration_cast<milliseconds>(clock_.monotonic() - began);
  }

  void take(const api::LoadAnswer& answer) {
    LoadStatus& status = choice_.status;
    status.source = api::LoadSource::kOperator;
    status.gpu_product = answer.gpu_product;
    status.key = answer.key;
    if (answer.decision != api::LoadDecision::kLoad)
      return none(answer.reason, "the operator has no archive for us");
    choice_.load = true;
    choice_.rank_directories = answer.rank_directories;
    status.archive = answer.archive;
    status.manifest_digest = answer.manifest_digest;
    status.generation = answer.generation;
    status.match = answer.match.value_or(api::Match::kExact);
    if (answer.budget_ms > 0) {
      choice_.budget = std::min(choice_.budget, milliseconds(answer.budget_ms));
    }
  }

  void look_into_index(const Error& why) {
    const store::OfflineIndex* index = store_.offline_index();
    if (!config_.index_fallback || index == nullptr)
      return none("operator_unreachable", why.message);
    log_info("without the operator, looking into the index on the volume",
             {{"error", why.message}});
    alive_();
    choice_.status.source = api::LoadSource::kIndex;
    const auto key = local_key(config_, store_, node_);
    if (!key) return none("node_unknown", key.error().message);
    choice_.status.key = *key;
    const auto read = index->read_index();
    if (!read) {
      none(store_trouble(store_, read.error(), store::Use::kRead), read.error().message);
      choice_.status.outcome = api::Outcome::kError;
      return;
    }
    for (const auto& problem : read->problems) {
      log_warn("the index on the volume is damaged", {{"problem", problem}});
    }
    const IndexWish wish{*key, config_.load.fallback == api::LoadFallback::kCompatible,
                         choice_.status.host_cpu, uses_gpu(config_)};
    const auto found = find_in_index(*read, wish);
    if (!found)
      return none(why_not_found(*read, wish), "the index on the volume has no archive for us");
    LoadStatus& status = choice_.status;
    choice_.load = true;
    status.archive = found->entry.name();
    status.manifest_digest = found->entry.digest;
    status.generation = static_cast<int64_t>(found->entry.generation());
    status.match = found->match;
    choice_.budget = what_is_left(archive::compile_seconds(found->entry.annotations));
    if (const auto product = found->key.find(api::kGpuProductPart); product != found->key.end()) {
      status.gpu_product = product->second;
    }
  }

  // The pod has already waited for an answer that did not come.
  [[nodiscard]] milliseconds what_is_left(double compile_seconds) const {
    const milliseconds budget = api::load_budget(choice_.budget, compile_seconds);
    if (compile_seconds <= 0) return budget;
    const milliseconds compile(static_cast<int64_t>(std::min(compile_seconds, 1e9) * 1000));
    return std::min(budget, std::max(kShortestLoad, compile - asked_));
  }

  void none(const std::string& reason, const std::string& message) {
    choice_.load = false;
    choice_.status.outcome = api::Outcome::kDoesNotExist;
    choice_.status.reason = reason.empty() ? "no_archive" : reason;
    choice_.status.message = message;
  }

  const api::AgentConfig& config_;
  store::Store& store_;
  const std::string& node_;
  Coordinator& coordinator_;
  const Clock& clock_;
  const Sleep& sleep_;
  const std::function<void()>& alive_;
  LoadChoice choice_;
  milliseconds asked_{0}, waited_{0}, for_place_{0};
  milliseconds silent_{0};  // since the operator's last answer
  std::string waited_for_;  // the operator's word
};

}  // namespace

LoadChoice choose_archive(const api::AgentConfig& config, store::Store& store,
                          const std::string& node, Coordinator& coordinator, const Clock& clock,
                          const Sleep& sleep, const std::function<void()>& alive) {
  return Chooser(config, store, node, coordinator, clock, sleep, alive).run();
}

}  // namespace compilecache::agent
