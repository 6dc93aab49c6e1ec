#include <algorithm>
#include <utility>

#include "agent/coordinator.hpp"
#include "agent/files.hpp"
#include "base/strings.hpp"
#include "http/client.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{2000};
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{2000};

bool worth_repeating(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout ||
         code == ErrorCode::kThrottled;
}

// An answer that a proxy or a replica that is not the leader gives.
bool nobody_there(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

class OperatorClient : public Coordinator {
 public:
  OperatorClient(const api::AgentConfig& config, const Clock& clock, Random random, Sleep sleep)
      : client_({.address = config.operator_address,
                 .port = static_cast<uint16_t>(config.operator_port),
                 .ca_pem = config.operator_ca,
                 .server_name = config.operator_name,
                 .connect_timeout = kConnectTimeout}),
        token_file_(config.token_file),
        clock_(clock),
        random_(std::move(random)),
        sleep_(std::move(sleep)) {}

  Result<api::LoadAnswer> load(const api::LoadRequest& request, Patience patience) override {
    return call<api::LoadAnswer>("POST", "/v1/load", api::dump(request), patience);
  }
  Status loaded(const api::LoadedReport& report, Patience patience) override {
    return tell("POST", "/v1/loaded", api::dump(report), patience);
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
    return call<api::RegistryToken>("POST", "/v1/registry-token", api::dump(request), patience);
  }

 private:
  Result<std::string> send_once(const std::string& method, const std::string& target,
                                const std::string& body, milliseconds timeout) const {
    const auto token = read_file(token_file_);
    if (!token) return unexpected(token.error().with("reading the token for the operator"));
    const auto response = client_.send({.method = method,
                                        .target = target,
                                        .body = body,
                                        .bearer_token = std::string(trim(*token)),
                                        .timeout = timeout});
    if (!response) return unexpected(response.error());
    if (response->status < 300) return response->body;
    Error error = api::error_of(response->status, response->body);
    if (nobody_there(response->status)) error.code = ErrorCode::kUnavailable;
    return unexpected(std::move(error));
  }

  Result<std::string> send(const std::string& method, const std::string& target,
                           const std::string& body, Patience patience) const {
    const Monotonic end = clock_.monotonic() + patience;
    milliseconds pause = kFirstPause;
    while (true) {
      const auto left = std::chrono::ceil<milliseconds>(end - clock_.monotonic());
      auto answer = send_once(method, target, body, std::max(left, milliseconds(1)));
      if (answer || !worth_repeating(answer.error().code)) return answer;
      // Half of the pause is random, so that agents which lost one leader do not all ask again at
      // once.
      const auto wait = pause / 2 + std::chrono::duration_cast<milliseconds>(
                                        random_fraction(random_) * (pause / 2));
      if (clock_.monotonic() + wait >= end || !sleep_(wait)) {
        return unexpected(
            answer.error().with("asking the operator (" + method + " " + target + ")"));
      }
      pause = std::min(pause * 2, kLongestPause);
    }
  }

  template <typename Answer>
  Result<Answer> call(const std::string& method, const std::string& target, const std::string& body,
                      Patience patience) const {
    const auto answer = send(method, target, body, patience);
    if (!answer) return unexpected(answer.error());
    return api::parse<Answer>(*answer);
  }

  Status tell(const std::string& method, const std::string& target, const std::string& body,
              Patience patience) const {
    const auto answer = send(method, target, body, patience);
    if (!answer) return unexpected(answer.error());
    return {};
  }

  http::Client client_;
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
