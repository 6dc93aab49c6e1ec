#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "agent/coordinator.hpp"
#include "agent/files.hpp"
#include "agent/load_race.hpp"
#include "base/strings.hpp"
#include "http/client.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{2000};
// How long the report of a load takes at most while no leader answers: the saver repeats it.
constexpr milliseconds kReportWithoutLeader{300};

// An answer that a proxy or a replica that is not the leader gives.
bool nobody_there(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

http::ClientOptions client_options(const api::AgentConfig& config, const std::string& address) {
  return {.address = address,
          .port = static_cast<uint16_t>(config.operator_port),
          .ca_pem = config.operator_ca,
          .server_name = config.operator_name,
          .connect_timeout = kConnectTimeout};
}

class OperatorClient : public Coordinator {
 public:
  OperatorClient(const api::AgentConfig& config, const Clock& clock, Random random, Sleep sleep)
      : leader_(client_options(config, config.operator_address)),
        token_file_(config.token_file),
        clock_(clock),
        random_(std::move(random)),
        sleep_(std::move(sleep)) {
    if (!config.load_address.empty()) {
      any_replica_.emplace(client_options(config, config.load_address));
    }
  }

  Result<api::LoadAnswer> load(const api::LoadRequest& request, Patience patience) override {
    return parsed<api::LoadAnswer>(ask_any("/v1/load", api::dump(request), patience));
  }
  Status loaded(const api::LoadedReport& report, Patience patience) override {
    const Patience longest = leader_answers_ ? patience : std::min(patience, kReportWithoutLeader);
    return tell("POST", "/v1/loaded", api::dump(report), longest);
  }
  Result<api::SaveAnswer> begin_save(const api::SaveRequest& request, Patience patience) override {
    return call<api::SaveAnswer>("POST", "/v1/saves", api::dump(request), patience);
  }
  Status renew_save(const std::string& id, const api::RenewRequest& request,
                    Patience patience) override {
    return tell("PUT", "/v1/saves/" + id, api::dump(request), patience);
  }
  Result<api::CommitAnswer> commit_save(const std::string& id, const api::CommitRequest& request,
                                        Patience patience) override {
    return call<api::CommitAnswer>("POST", "/v1/saves/" + id + "/commit", api::dump(request),
                                   patience);
  }
  Status release_save(const std::string& id, Patience patience) override {
    return tell("DELETE", "/v1/saves/" + id, "", patience);
  }
  Status effect(const api::EffectReport& report, Patience patience) override {
    return tell("POST", "/v1/effect", api::dump(report), patience);
  }
  Result<api::SweepAnswer> sweep(const api::SweepRequest& request, Patience patience) override {
    return call<api::SweepAnswer>("POST", "/v1/sweeps", api::dump(request), patience);
  }
  Result<api::RegistryToken> registry_token(const api::RegistryTokenRequest& request,
                                            Patience patience) override {
    const std::string body = api::dump(request);
    if (!request.push && !request.source) {
      return parsed<api::RegistryToken>(ask_any("/v1/registry-token", body, patience));
    }
    return call<api::RegistryToken>("POST", "/v1/registry-token", body, patience);
  }

 private:
  Result<std::string> send_once(const http::Client& client, http::ClientRequest request) const {
    const auto token = read_file(token_file_);
    if (!token) return unexpected(token.error().with("reading the token for the operator"));
    request.bearer_token = std::string(trim(*token));
    const auto response = client.send(request);
    if (!response) return unexpected(response.error());
    if (response->status < 300) return response->body;
    Error error = api::error_of(response->status, response->body);
    if (nobody_there(response->status)) error.code = ErrorCode::kUnavailable;
    return unexpected(std::move(error));
  }

  // Of the leader, with retries.
  Result<std::string> send(const std::string& method, const std::string& target,
                           const std::string& body, Patience patience) const {
    const Monotonic end = clock_.monotonic() + patience;
    RetryPause pause(random_);
    while (true) {
      const auto left = std::chrono::ceil<milliseconds>(end - clock_.monotonic());
      auto answer = send_once(leader_, {.method = method,
                                        .target = target,
                                        .body = body,
                                        .timeout = std::max(left, milliseconds(1))});
      if (answer || !worth_repeating(answer.error().code)) return answer;
      const auto wait = pause.next();
      if (clock_.monotonic() + wait >= end || !sleep_(wait)) {
        return unexpected(asked(answer.error(), method, target));
      }
    }
  }

  // Of the leader, or of another replica while it does not answer.
  Result<std::string> ask_any(const std::string& target, const std::string& body,
                              Patience patience) const {
    if (!any_replica_) return send("POST", target, body, patience);
    const auto ask = [&](const http::Client& client, milliseconds timeout, std::stop_token stop) {
      return send_once(client, {.method = "POST",
                                .target = target,
                                .body = body,
                                .timeout = timeout,
                                .stop = std::move(stop)});
    };
    std::atomic<bool> leader_answered = false;
    const RaceCalls calls{[&](milliseconds timeout, std::stop_token stop) {
                            auto answer = ask(leader_, timeout, std::move(stop));
                            if (answer || !worth_repeating(answer.error().code))
                              leader_answered = true;
                            return answer;
                          },
                          [&](milliseconds timeout, std::stop_token stop) {
                            return ask(*any_replica_, timeout, std::move(stop));
                          }};
    RaceParts parts{clock_, random_, sleep_};
    if (!leader_answers_) parts.head_start = milliseconds(0);
    auto answer = race(calls, patience, parts);
    leader_answers_ = leader_answered.load();
    if (answer || !worth_repeating(answer.error().code)) return answer;
    return unexpected(asked(answer.error(), "POST", target));
  }

  static Error asked(const Error& error, const std::string& method, const std::string& target) {
    return error.with("asking the operator (" + method + " " + target + ")");
  }

  template <typename Answer>
  static Result<Answer> parsed(const Result<std::string>& answer) {
    if (!answer) return unexpected(answer.error());
    return api::parse<Answer>(*answer);
  }

  template <typename Answer>
  Result<Answer> call(const std::string& method, const std::string& target, const std::string& body,
                      Patience patience) const {
    return parsed<Answer>(send(method, target, body, patience));
  }

  Status tell(const std::string& method, const std::string& target, const std::string& body,
              Patience patience) const {
    const auto answer = send(method, target, body, patience);
    if (!answer) return unexpected(answer.error());
    return {};
  }

  http::Client leader_;
  std::optional<http::Client> any_replica_;
  // Whether the leader answered when both were asked last.
  mutable std::atomic<bool> leader_answers_ = true;
  std::string token_file_;
  const Clock& clock_;
  Random random_;
  Sleep sleep_;
};

}  // namespace

std::unique_ptr<Coordinator> make_operator_client(const api::AgentConfig& config,
                                                  const Clock& clock, Random random, Sleep sleep) {
  return std::make_unique<OperatorClient>(config, clock, std::move(random), std::move(sleep));
}

std::unique_ptr<Coordinator> make_coordinator(const api::AgentConfig& config, store::Store& store,
                                              std::string node, const Clock& clock, Random random,
                                              Sleep sleep) {
  if (config.operator_address.empty())
    return make_index_coordinator(config, store, std::move(node), clock);
  return make_operator_client(config, clock, std::move(random), std::move(sleep));
}

}  // namespace compilecache::agent
