#include "tests/simulation/tenants/hostile.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "api/agent_api.hpp"
#include "api/names.hpp"
#include "http/client.hpp"

namespace compilecache::simulation {
namespace {

using Json = nlohmann::json;

constexpr char kCache[] = "cache-hostile";
constexpr size_t kPodsAtOnce = 6;
constexpr uint64_t kFlood = 30;  // requests at once, of each pod one
constexpr std::chrono::seconds kAnswer{10};
constexpr char kControl[] = "\x1b[2J\xe2\x80\xae";  // clears a screen, and turns a line around

class Hostile {
 public:
  explicit Hostile(World& world) : world_(world) {}

  void run() {
    world_.api.objects.put(kNamespaces, {{"metadata", {{"name", kHostileNamespace}}}});
    world_.create_cache(kHostileNamespace, kCache, "24h");
    while (true) {
      make_pod();
      const uint64_t calls = 1 + chance_.below(8);
      for (uint64_t i = 0; i < calls; ++i) {
        act();
        sleep_for_ns(static_cast<int64_t>(1 + chance_.below(300)) * kSecond);
      }
    }
  }

 private:
  // Its own pods, one of them a sweep Job's as far as labels and owners say.
  void make_pod() {
    if (pods_.size() >= kPodsAtOnce) {
      world_.api.objects.erase(kPods, kHostileNamespace, pods_.front().first);
      pods_.erase(pods_.begin());
    }
    const bool looks_like_job = chance_.one_in(3);
    const std::string name = "hostile-" + std::to_string(++made_);
    const Json container = {{"name", "server"},
                            {"image", text()},
                            {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}};
    Json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {{"name", name},
          {"namespace", kHostileNamespace},
          {"labels", {{api::kCacheLabel, kCache}}},
          {"annotations", annotations()}}},
        {"spec", {{"serviceAccountName", "default"}, {"containers", Json::array({container})}}}};
    if (looks_like_job) make_look_like_job(pod);
    Json object = world_.api.create_pod(std::move(pod));
    object["spec"]["nodeName"] = "n-h100";
    object["status"]["phase"] = "Running";
    world_.api.objects.put(kPods, object);
    pods_.emplace_back(
        name, ApiServer::token_of(kHostileNamespace, name, object["metadata"]["uid"], "n-h100"));
  }

  void make_look_like_job(Json& pod) {
    const Json containers = Json::array({{{"env", Json::array()}}});
    const Json job = world_.api.objects.put(
        kJobs, {{"metadata",
                 {{"name", pod["metadata"]["name"]},
                  {"namespace", kHostileNamespace},
                  {"labels", {{api::kSweepLabel, kCache}}}}},
                {"spec", {{"template", {{"spec", {{"containers", containers}}}}}}}});
    const Json owner = {{"apiVersion", "batch/v1"},
                        {"kind", "Job"},
                        {"name", job["metadata"]["name"]},
                        {"uid", job["metadata"]["uid"]},
                        {"controller", true}};
    pod["metadata"]["labels"][api::kSweepLabel] = kCache;
    pod["metadata"]["ownerReferences"] = Json::array({owner});
  }

  Json annotations() {
    Json all = {{api::kCacheAnnotation, kCache}};
    if (chance_.one_in(2)) all["example.com/large"] = std::string(100'000, 'x');
    if (chance_.one_in(3)) all[api::kStatusAnnotation] = std::string(50'000, '[');
    return all;
  }

  std::string text() {
    switch (chance_.below(4)) {
      case 0:
        return std::string(200'000, 'a');
      case 1:
        return kControl;
      case 2:
        return "../../team-0/cache-0";
      default:
        return "hostile:" + std::to_string(chance_.below(5));
    }
  }

  // A digest of another tenant's archive where there is one.
  std::string digest() {
    std::vector<std::string> all{"sha256:" + std::string(64, '0'), text()};
    for (const auto& [key, archive] : world_.archives()) {
      if (!archive.head.exists()) continue;
      all.push_back(archive.head.manifest_digest);
      all.push_back(archive.head.blobs.front());
    }
    return all[chance_.below(all.size())];
  }

  void act() {
    switch (chance_.below(7)) {
      case 0:
        return flood();
      case 1:
        return save();
      case 2:
        return sweep();
      case 3:
        send("POST", "/v1/loaded",
             api::dump(api::LoadedReport{.cache = kCache,
                                         .outcome = api::Outcome::kError,
                                         .reason = "corrupt",
                                         .message = text(),
                                         .archive = text(),
                                         .manifest_digest = digest(),
                                         .corrupt_digest = digest(),
                                         .milliseconds = -1,
                                         .bytes = INT64_MAX}));
        return;
      case 4:
        send("POST", "/v1/effect",
             api::dump(api::EffectReport{.cache = kCache,
                                         .effect = api::Effect::kNone,
                                         .compile_seconds = 1e300,
                                         .new_names = {text(), text()},
                                         .save_message = text(),
                                         .unreadable_files = INT64_MAX,
                                         .unreadable_owner = 0}));
        return;
      case 5:
        send("POST", "/v1/registry-token", api::dump(api::RegistryTokenRequest{.push = true}));
        return;
      default:
        send("POST", "/v1/saves", std::string(100'000, '['));
        send("POST", "/v1/" + std::string(10'000, 'x'), "{}");
    }
  }

  // Asks with all its pods at once for places that it does not use.
  void flood() {
    for (uint64_t i = 0; i < kFlood; ++i) {
      start_thread(current_process(), "flood", [this, token = token()] {
        (void)client_.send({.method = "POST",
                            .target = "/v1/load",
                            .body = api::dump(api::LoadRequest{.cache = kCache}),
                            .bearer_token = token,
                            .timeout = kAnswer});
      });
    }
  }

  // Commits what others have, or nobody.
  void save() {
    const std::string body = send("POST", "/v1/saves",
                                  api::dump(api::SaveRequest{.cache = kCache,
                                                             .attempt = text(),
                                                             .have_digest = digest(),
                                                             .loaded_digest = digest(),
                                                             .corrupt_digest = digest(),
                                                             .missing_digest = digest(),
                                                             .new_files = 1,
                                                             .new_bytes = 1}));
    const auto answer = api::parse<api::SaveAnswer>(body);
    if (!answer || answer->decision != api::SaveDecision::kGranted) return;
    send("POST", "/v1/saves/" + answer->id + "/commit",
         api::dump(api::CommitRequest{.fence = answer->fence,
                                      .parent_digest = answer->parent_digest,
                                      .manifest_digest = digest(),
                                      .blobs = {digest(), digest()},
                                      .compressed_bytes = 1,
                                      .plain_bytes = INT64_MAX}));
    if (chance_.one_in(2)) send("DELETE", "/v1/saves/" + answer->id, "");
  }

  // Says of a store that it is empty and what is in it corrupt.
  void sweep() {
    for (const api::SweepPhase phase :
         {api::SweepPhase::kBegin, api::SweepPhase::kInventory, api::SweepPhase::kEnd}) {
      send("POST", "/v1/sweeps",
           api::dump(api::SweepRequest{.cache = kCache,
                                       .phase = phase,
                                       .inventory = api::Inventory{},
                                       .freed_bytes = INT64_MAX,
                                       .corrupt = {digest(), digest()},
                                       .verified = {digest()},
                                       .storage_error = text()}));
    }
  }

  std::string token() { return pods_[chance_.below(pods_.size())].second; }

  std::string send(const std::string& method, const std::string& target, std::string body) {
    const auto response = client_.send({.method = method,
                                        .target = target,
                                        .body = std::move(body),
                                        .bearer_token = token(),
                                        .timeout = kAnswer});
    return response ? response->body : "";
  }

  World& world_;
  Chance chance_{kHostileNamespace};
  const http::Client client_{{.address = kAgentAddress}};
  std::vector<std::pair<std::string, std::string>> pods_;  // name and token
  int made_ = 0;
};

}  // namespace

void start_hostile_tenant(World& world) {
  world.set_hostile(kHostileNamespace);
  start_process(kHostileNamespace, [&world] {
    sleep_for_ns(kHour);
    (new Hostile(world))->run();
  });
}

}  // namespace compilecache::simulation
