#include "tests/integration/agent_crowd.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "kube/client.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "tests/support/kubectl.hpp"

namespace compilecache::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenStarts{10};
constexpr int kCreators = 8;
constexpr agent::Patience kPatience{10'000};
const SystemClock kClock;

const kube::Client& client() {
  static const kube::Client made(*kube::make_transport(*kube::load_config({})));
  return made;
}

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

std::string temporary_folder() {
  std::array<char, 64> name{"/tmp/agent-crowd-XXXXXX"};
  return ::mkdtemp(name.data());
}

bool rest(milliseconds time) {
  std::this_thread::sleep_for(time);
  return true;
}

}  // namespace

AgentCrowd::AgentCrowd(const OperatorProcess& process, std::string ns, const json& pod, int count,
                       int64_t wait_for_first)
    : ns_(std::move(ns)), folder_(temporary_folder()), pods_(static_cast<size_t>(count)) {
  log_init(LogFormat::kText, LogLevel::kWarn);
  const json secret = read({"secret", "compilecache-certificates", "-n", kOperatorNamespace});
  const std::string ca = base64_decode(at(secret, "/data/ca.crt").get<std::string>()).value();
  std::atomic<size_t> next{0};
  std::vector<std::thread> creators;
  for (int i = 0; i < kCreators; ++i) {
    creators.emplace_back([&] {
      for (size_t number = next++; number < pods_.size(); number = next++) {
        CrowdPod& one = pods_[number];
        one.name = "pod-" + std::to_string(number);
        one.config.ns = ns_;
        one.config.operator_address = "127.0.0.1";
        one.config.operator_port = process.agent_port();
        one.config.operator_name =
            std::string(api::kAgentService) + "." + kOperatorNamespace + ".svc";
        one.config.operator_ca = ca;
        one.config.token_file = folder_ + "/" + one.name;
        one.config.index_fallback = false;
        one.config.wait_for_first_ms = wait_for_first;
        one.coordinator = agent::make_operator_client(one.config, kClock, system_random(), rest);
        create(one, pod);
      }
    });
  }
  for (std::thread& creator : creators) creator.join();
}

AgentCrowd::~AgentCrowd() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void AgentCrowd::create(CrowdPod& pod, json object) const {
  object["metadata"]["name"] = pod.name;
  const json created = must(client().create(kube::resources::kPods, object));
  must(client().patch(kube::resources::kPods, ns_, pod.name, kube::PatchType::kMerge,
                      {{"status", {{"phase", "Running"}}}}, {.subresource = "status"}));
  const json request = {{"apiVersion", "authentication.k8s.io/v1"},
                        {"kind", "TokenRequest"},
                        {"spec",
                         {{"audiences", {api::kTokenAudience}},
                          {"expirationSeconds", 3600},
                          {"boundObjectRef",
                           {{"apiVersion", "v1"},
                            {"kind", "Pod"},
                            {"name", pod.name},
                            {"uid", created.at("metadata").at("uid")}}}}}};
  const std::string answer = must(client().raw(
      "POST", "/api/v1/namespaces/" + ns_ + "/serviceaccounts/default/token", request.dump()));
  std::ofstream(pod.config.token_file)
      << json::parse(answer).at("status").at("token").get<std::string>();
}

void AgentCrowd::run(
    const std::function<void(CrowdPod& pod, const agent::LoadChoice& choice)>& go_on) {
  std::vector<std::thread> agents;
  for (CrowdPod& pod : pods_) {
    agents.emplace_back([&] {
      const agent::LoadChoice choice =
          agent::choose_archive(pod.config, "", *pod.coordinator, kClock, rest, [] {});
      pod.waited = milliseconds(choice.status.waited_ms);
      pod.outcome =
          choice.load ? std::string(api::to_string(choice.status.match)) : choice.status.reason;
      go_on(pod, choice);
    });
    std::this_thread::sleep_for(kBetweenStarts);
  }
  for (std::thread& agent : agents) agent.join();
}

std::map<std::string, int> AgentCrowd::outcomes() const {
  std::map<std::string, int> counts;
  for (const CrowdPod& pod : pods_) ++counts[pod.outcome];
  return counts;
}

milliseconds AgentCrowd::longest_wait() const {
  milliseconds longest{0};
  for (const CrowdPod& pod : pods_) longest = std::max(longest, pod.waited);
  return longest;
}

void AgentCrowd::remove(const CrowdPod& pod) const {
  must(client().remove(kube::resources::kPods, ns_, pod.name, {.grace_period_seconds = 0}));
}

std::string crowd_save(CrowdPod& pod, const std::string& manifest, double compile_seconds) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto save = pod.coordinator->begin_save(
        {.attempt = pod.name + "." + std::to_string(attempt), .new_files = 3}, kPatience);
    if (!save) return save.error().message;
    if (save->decision == api::SaveDecision::kBusy) {
      rest(milliseconds(save->retry_after_ms));
      continue;
    }
    if (save->decision != api::SaveDecision::kGranted) {
      return std::string(api::to_string(save->decision)) + ": " + save->reason;
    }
    const auto committed = pod.coordinator->commit_save(save->id,
                                                        {.fence = save->fence,
                                                         .parent_digest = save->parent_digest,
                                                         .manifest_digest = manifest,
                                                         .blobs = {manifest},
                                                         .compressed_bytes = 1000,
                                                         .plain_bytes = 5000,
                                                         .files = 3,
                                                         .layers = 1,
                                                         .compile_seconds = compile_seconds},
                                                        kPatience);
    return committed ? "committed" : committed.error().message;
  }
  return "busy for ever";
}

}  // namespace compilecache::testing
