#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/names.hpp"
#include "base/time_format.hpp"
#include "operator/agents/agent_api.hpp"
#include "operator/archives/archive_trust.hpp"
#include "tests/unit/operator/fake_archives.hpp"

// The agent API with everything behind it, but for the API server.

namespace compilecache::controller::test {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// The pod's application crashes again and again, each time seen.
inline void crash(CrashWatch& watch, const std::string& uid, const std::string& pod, int times) {
  for (int end = 1; end <= times; ++end) watch.seen({uid, pod, {{"app", end, true}}});
}

class Events : public kube::EventSink {
 public:
  void record(const kube::EventRecord& record) override {
    const std::lock_guard lock(mutex_);
    reasons.push_back(record.reason);
    messages.push_back(record.message);
  }
  std::vector<std::string> reasons, messages;  // for when nobody records

 private:
  std::mutex mutex_;
};

// One namespace with a node, a CompileCache and pods; tokens are the pods' names.
class AgentApiTest : public ::testing::Test {
 protected:
  AgentApiTest() {
    settings.sweep.grace = minutes(10);
    auto node = std::make_shared<NodeView>();
    node->name = "n1";
    node->facts = {"NVIDIA-H100-80GB-HBM3", "amd64", "", ""};
    stores.nodes.upsert("n1", node);
    cache.metadata.ns = "ml";
    cache.metadata.name = "transformer";
    cache.metadata.uid = "cache-uid";
    cache.spec.storage = {.claim_name = "claim"};
    cache.status.conditions = {{.type = api::kStorageReadyCondition, .status = "True"}};
    cache.status.sweep_job = "j1";  // as the operator notes it when it creates a Job
    put_cache();
    meet_cache();
    // As the reflector would.
    archives.on_write = [this](const auto&, const auto& after) { show(after); };
    for (const char* name : {"a", "b", "c"}) add_pod(name);
    auto job = std::make_shared<PodView>();
    job->ns = "ml";
    job->name = "job";
    job->uid = "uid-job";
    job->sweep = "transformer";
    job->owner = std::make_shared<const OwnerView>(OwnerView{"batch/v1", "Job", "sweep-1", "j1"});
    stores.sweep_pods.upsert("ml/job", job);
  }

  void put_cache() {
    stores.caches.upsert("ml/transformer", std::make_shared<api::CompileCache>(cache));
  }
  // As the controller does, once.
  void meet_cache() { stats.seed("ml/transformer", cache.status); }
  void show(const api::CompileCacheArchive& archive) {
    stores.archives.upsert(archive.metadata.key(),
                           std::make_shared<api::CompileCacheArchive>(archive));
  }
  void add_pod(const std::string& name, const std::string& gpu = "nvidia.com/gpu",
               const std::optional<std::vector<std::string>>& claims = std::nullopt) {
    auto pod = std::make_shared<PodView>();
    pod->ns = "ml";
    pod->name = name;
    pod->uid = "uid-" + name;
    pod->node = "n1";
    pod->phase = "Running";
    pod->cache = "transformer";
    auto injection = std::make_shared<api::InjectionStatus>();
    injection->mode = mode;
    injection->wait_for_first_ms = wait_for_first.count();
    injection->key_basis = {
        .parts = cache.spec.key, .gpu_resource = gpu, .gpu_count = 1, .image = image};
    injection->key_basis.claims = claims;
    pod->injection = std::move(injection);
    stores.pods.upsert("ml/" + name, pod);
  }

  // Makes it one of a LeaderWorkerSet's pods.
  void put_into_group(const std::string& name, const std::string& group, int worker) {
    auto pod = std::make_shared<PodView>(*view.pod("ml", name));
    pod->group = {"group-key=" + group, "worker-index=" + std::to_string(worker)};
    stores.pods.upsert("ml/" + name, pod);
  }

  http::Response send(const std::string& method, const std::string& path, const std::string& token,
                      const std::string& body = {}) {
    http::Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    if (!token.empty()) request.headers = {{"Authorization", "Bearer " + token}};
    return agent_api.answer(request);
  }
  template <typename Answer, typename Message>
  Answer call(const std::string& path, const std::string& token, const Message& message) {
    const auto response = send("POST", path, token, api::dump(message));
    EXPECT_EQ(response.status, 200) << path << ": " << response.body;
    return api::parse<Answer>(response.body).value_or(Answer{});
  }
  api::LoadAnswer load(const std::string& pod, const std::string& cpu = "") {
    return call<api::LoadAnswer>("/v1/load", pod,
                                 api::LoadRequest{.cache = "transformer", .cpu = cpu});
  }
  // A whole save; returns the status of the commit's answer.
  int save(const std::string& pod, char manifest, const std::string& cpu = "") {
    const auto answer = call<api::SaveAnswer>(
        "/v1/saves", pod,
        api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1, .cpu = cpu});
    EXPECT_EQ(answer.decision, api::SaveDecision::kGranted) << answer.reason;
    return send("POST", "/v1/saves/" + answer.id + "/commit", pod,
                api::dump(api::CommitRequest{.fence = answer.fence,
                                             .parent_digest = answer.parent_digest,
                                             .manifest_digest = digest(manifest),
                                             .blobs = {digest(manifest)},
                                             .compile_seconds = 40,
                                             .cpu = cpu}))
        .status;
  }
  void report_loaded(const std::string& pod, api::Outcome outcome, std::optional<api::Match> match,
                     const std::string& corrupt = {}) {
    const auto archive = archives.archives.begin()->second;
    api::LoadedReport report{.cache = "transformer", .outcome = outcome, .match = match};
    report.archive = archive.metadata.name;
    report.manifest_digest = archive.head.manifest_digest;
    report.corrupt_digest = corrupt;
    report.milliseconds = 37;
    EXPECT_EQ(send("POST", "/v1/loaded", pod, api::dump(report)).status, 200);
  }
  void report_cold(const std::string& pod) {
    const api::LoadedReport report{
        .cache = "transformer", .outcome = api::Outcome::kDoesNotExist, .reason = "no_archive"};
    EXPECT_EQ(send("POST", "/v1/loaded", pod, api::dump(report)).status, 200);
  }
  void report_effect(const std::string& pod, api::Effect effect, double compile_seconds) {
    EXPECT_EQ(
        send("POST", "/v1/effect", pod,
             api::dump(api::EffectReport{
                 .cache = "transformer", .effect = effect, .compile_seconds = compile_seconds}))
            .status,
        200);
  }
  api::CompileCacheStatus status() {
    api::CompileCacheStatus status;
    stats.fill("ml/transformer", status);
    return status;
  }
  api::SweepAnswer begin_sweep() {
    return call<api::SweepAnswer>(
        "/v1/sweeps", "job",
        api::SweepRequest{.cache = "transformer", .phase = api::SweepPhase::kBegin});
  }
  void end_sweep(const std::string& inventory, const std::vector<std::string>& corrupt = {},
                 const std::vector<std::string>& verified = {}) {
    api::SweepRequest request{.cache = "transformer", .phase = api::SweepPhase::kEnd};
    request.verified = verified;
    request.inventory.emplace();
    for (const char fill : inventory) request.inventory->blobs.push_back({digest(fill), 1});
    request.corrupt = corrupt;
    EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(request)).status, 200);
  }
  // What another cluster left, in generation 7.
  static api::FoundArchive found_archive(char manifest, const std::string& image) {
    return {.key = {{"GPUProduct", "NVIDIA-H100-80GB-HBM3"}, {"Image", image}},
            .manifest_digest = digest(manifest),
            .generation = 7,
            .saved_at = "2026-01-01T00:00:00Z",
            .blobs = {digest('f')},
            .compressed_bytes = 1000,
            .files = 3,
            .layers = 1};
  }
  int adopt(const std::vector<api::FoundArchive>& found) {
    return send("POST", "/v1/sweeps", "job",
                api::dump(api::SweepRequest{
                    .cache = "transformer", .phase = api::SweepPhase::kAdopt, .found = found}))
        .status;
  }
  int copy(const std::vector<api::FoundArchive>& found, const std::string& from = "",
           const std::string& error = "") {
    return send("POST", "/v1/sweeps", "job",
                api::dump(api::SweepRequest{.cache = "transformer",
                                            .phase = api::SweepPhase::kCopy,
                                            .found = found,
                                            .copied_from = from,
                                            .copied_archives = 2,
                                            .copy_error = error}))
        .status;
  }
  // The service account of a pod.
  [[nodiscard]] std::string account_of(const std::string& pod) const {
    const auto found = accounts.find(pod);
    return found == accounts.end() ? "default" : found->second;
  }
  // As somebody does it with kubectl, or the garbage collector.
  void delete_archives() {
    for (const auto& [key, archive] : archives.archives) {
      stores.archives.erase(key, stores.archives.get(key));
    }
    archives.archives.clear();
  }
  const api::CompileCacheArchive& archive() const { return archives.archives.begin()->second; }
  // The status writer.
  void write_status() {
    stats.fill("ml/transformer", cache.status);
    put_cache();
  }

  std::map<std::string, std::string> accounts;  // of pods with another one than "default"
  std::string created;                          // the Job that this leader created
  std::set<int64_t> possible_owners{0, 1000};   // whose files containers can leave
  Settings settings;
  api::Mode mode = api::Mode::kReadWrite;
  std::string image = "torch:1";
  milliseconds wait_for_first{0};
  FakeClock clock;
  ClusterStores stores;
  api::CompileCache cache;
  ClusterView view{stores};
  std::function<void(const std::string& token)> on_review = [](const std::string&) {};
  TokenAuth auth{[this](const json& review) -> Result<json> {
                   const std::string pod = review["spec"]["token"];
                   on_review(pod);
                   return json{{"status",
                                {{"authenticated", pod != "stranger"},
                                 {"audiences", {api::kTokenAudience}},
                                 {"user",
                                  {{"username", "system:serviceaccount:ml:" + account_of(pod)},
                                   {"extra",
                                    {{"authentication.kubernetes.io/pod-name", {pod}},
                                     {"authentication.kubernetes.io/pod-uid", {"uid-" + pod}},
                                     {"authentication.kubernetes.io/node-name", {"n1"}}}}}}}}};
                 },
                 seconds(60), clock};
  FakeArchives archives;
  CacheLocks locks;
  SweepGuard guard;
  SaveCoordinator saves{archives, locks, guard, 50, clock, seeded_random(1)};
  ArchiveRegistry registry{archives, seconds(5), clock};
  LoadTraffic traffic{50, clock};
  PodLedger pods;
  CrashWatch crashes{pods};
  CacheStats stats{32, pods};
  Metrics metrics;
  Events events;
  TokenMinter minter{clock, seeded_random(2)};  // without an authority
  RegistryUsage usage;
  // Of the registry that `stores` names, spoken to in plain HTTP.
  OwnRepositories repositories{{.place = [this] { return view.own_registry(); },
                                .authorities = [] { return std::string(); },
                                .minter = minter,
                                .plain_http = true}};
  std::vector<bool> rooms;         // whether it was found full
  std::optional<PodView> fetched;  // that the view lacks, as the API server has it
  // The devices of the pods with claims.
  Result<api::DeviceFacts> devices = api::DeviceFacts{"NVIDIA-H100-80GB-HBM3", 1, ""};
  bool leading = true;
  std::atomic<int> sweeps_wanted{0};
  std::mutex spoke_mutex;
  std::vector<std::string> spoke;
  AgentApi agent_api{
      {view, auth, saves, locks, guard, archives, registry, traffic, crashes, stats, pods, metrics,
       events, &minter, &usage, &repositories},
      settings,
      {.is_leader = [this] { return leading; },
       .spoke =
           [this](const PodView& pod) {
             const std::lock_guard lock(spoke_mutex);
             spoke.push_back(pod.name);
           },
       .fetch_pod = [this](const std::string&, const std::string& name) -> Result<PodView> {
         if (fetched && fetched->name == name) return *fetched;
         return fail(ErrorCode::kNotFound, "no such pod");
       },
       .devices = [this](const PodView&, const std::string&) { return devices; },
       .is_sweep_job =
           [this](const std::string& key, const std::string& job) {
             return key == "ml/transformer" && job == created;
           },
       .can_own_files = [this](const PodView&, int64_t user) -> Result<bool> {
         return possible_owners.contains(user);
       },
       .sweep_wanted = [this](const auto&, const auto&) { ++sweeps_wanted; },
       .registry_room = [this](bool full) { rooms.push_back(full); }},
      clock};
};

}  // namespace compilecache::controller::test
