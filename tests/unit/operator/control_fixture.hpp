#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/names.hpp"
#include "base/time_format.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/caches/compile_cache_controller.hpp"
#include "tests/support/fake_apiserver.hpp"

// The controllers' writes to an API server, seen in one that is in this process.

namespace compilecache::controller::test {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeApiServer;

inline constexpr char kCaches[] = "/apis/compilecache.dev/v1alpha1/compilecaches";
inline constexpr char kArchives[] = "/apis/compilecache.dev/v1alpha1/compilecachearchives";
inline constexpr char kJobs[] = "/apis/batch/v1/jobs";

inline kube::Client client_of(const FakeApiServer& server) {
  kube::Config config;
  config.server = server.url();
  return kube::Client(*kube::make_transport(config));
}

struct RecordedEvents : kube::EventSink {
  void record(const kube::EventRecord& record) override { records.push_back(record); }
  std::vector<kube::EventRecord> records;
};

// One CompileCache "ml/transformer" on the claim "ml/caches", and all that its controller needs.
class ControlTest : public ::testing::Test {
 protected:
  ControlTest() {
    settings.frameworks["torch"] = {};
    stores.agents.set({"10.0.0.1", {}});
    server.put("/api/v1/namespaces", {{"metadata", {{"name", "ml"}}}});
    server.put("/api/v1/persistentvolumes", {{"metadata", {{"name", "pv-1"}}}});
    put_cache({});
  }

  // The API server's and the store's.
  void put_cache(json spec) {
    if (!spec.contains("storage")) spec["storage"] = {};
    if (!spec["storage"].contains("registry")) spec["storage"]["claimName"] = "caches";
    spec["frameworks"] = {"torch"};
    const json object = server.put(
        kCaches,
        {{"metadata", {{"name", "transformer"}, {"namespace", "ml"}, {"generation", generation}}},
         {"spec", spec}});
    see_cache(object);
  }
  void see_cache(const json& object) {
    stores.caches.upsert("ml/transformer", std::make_shared<const api::CompileCache>(
                                               api::parse_compile_cache(object).value()));
  }
  void put_claim(std::string phase = "Bound") {
    claims.upsert("ml/caches",
                  std::make_shared<const ClaimView>(ClaimView{.ns = "ml",
                                                              .name = "caches",
                                                              .uid = "c-1",
                                                              .phase = std::move(phase),
                                                              .access_modes = {"ReadWriteMany"},
                                                              .volume_name = "pv-1"}));
  }
  void put_archive(const std::string& name, hours unused) {
    const std::string then = format_time(clock.wall() - unused);
    const json object = server.put(
        kArchives,
        {{"metadata",
          {{"name", name}, {"namespace", "ml"}, {"labels", {{api::kCacheLabel, "transformer"}}}}},
         {"spec",
          {{"cache", "transformer"},
           {"cacheName", "transformer"},
           {"key", {{"GPUProduct", "H100"}}}}},
         {"status", json::object()}});
    api::CompileCacheArchive archive;
    archive.metadata = api::object_meta(object);
    archive.cache = "transformer";
    archive.cache_uid = server.objects(kCaches).at("ml/transformer").at("metadata").at("uid");
    archive.key["GPUProduct"] = "H100";
    archive.head.manifest_digest = "sha256:" + name;
    archive.head.compressed_bytes = 1000;
    archive.head.saved_at = then;
    archive.last_used_time = then;
    stores.archives.upsert("ml/" + name, std::make_shared<const api::CompileCacheArchive>(archive));
  }
  // Named by the key of a pod on a node with an H100.
  static std::string old_one() {
    return api::archive_name("transformer", {{"GPUProduct", "H100"}});
  }
  // Does the work of a reflector.
  void see_jobs() {
    std::vector<kube::Store<SweepJob>::Item> items;
    for (json job : all(kJobs)) {
      job["metadata"]["creationTimestamp"] = format_time(job_made);
      items.emplace_back("ml/" + job["metadata"]["name"].get<std::string>(),
                         std::make_shared<const SweepJob>(parse_sweep_job(job).value()));
    }
    jobs.store.replace(std::move(items));
  }
  std::vector<json> all(const char* collection) const {
    std::vector<json> found;
    for (const auto& [key, object] : server.objects(collection)) found.push_back(object);
    return found;
  }

  // As the agent API hears it from the pod of the only Job.
  void report(const std::string& error = {},
              std::optional<api::RegistryTrouble> trouble = std::nullopt) {
    sweeper.reported("ml/transformer", all(kJobs).at(0).at("metadata").at("uid"), error, trouble);
  }
  // Does the work of the Job controller and the pod of the only Job.
  void set_job_status(const json& status) {
    json job = all(kJobs).at(0);
    job["status"] = status;
    server.put(kJobs, job);
    see_jobs();
  }
  void refuse_pods(const std::string& why) {
    const json job = all(kJobs).at(0);
    server.put("/api/v1/events",
               {{"metadata", {{"name", "refused"}, {"namespace", "ml"}}},
                {"involvedObject", {{"kind", "Job"}, {"uid", job["metadata"]["uid"]}}},
                {"reason", "FailedCreate"},
                {"lastTimestamp", "2026-01-01T00:00:00Z"},
                {"message", why}});
  }
  bool runs_unprivileged(const json& job) const {
    return job["spec"]["template"]["spec"]["containers"][0]["securityContext"].contains(
        "runAsNonRoot");
  }

  Result<kube::Reconciled> reconcile() { return controller.reconcile("ml/transformer"); }
  // And the store sees what was written.
  void reconcile_and_see() {
    const auto done = reconcile();
    ASSERT_TRUE(done) << done.error().message;
    see_cache(server.objects(kCaches).at("ml/transformer"));
    see_jobs();
    clock.advance(seconds(10));
  }
  json condition(const std::string& type) const {
    const json cache = server.objects(kCaches).at("ml/transformer");
    for (const json& each : cache.at("status").at("conditions")) {
      if (each.at("type") == type) return each;
    }
    return nullptr;
  }
  size_t writes() const {
    size_t count = 0;
    for (const auto& request : server.requests()) count += request.method == "PATCH" ? 1 : 0;
    return count;
  }

  // The pod "web" runs and has loaded "old", which nobody has loaded since; "new" is newer.
  void a_pod_runs_with_an_old_archive() {
    put_claim();
    reconcile_and_see();
    put_archive("old", hours(900));
    put_archive("new", hours(1));
    PodView pod{
        .ns = "ml", .name = "web", .uid = "u-1", .phase = "Running", .cache = "transformer"};
    stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
    stats.loaded(
        "ml/transformer",
        {.pod = "web", .pod_uid = "u-1", .archive = "old", .load = api::LoadOutcome::kExact});
  }

  FakeApiServer server;
  FakeClock clock;
  WallTime job_made = clock.wall();
  int64_t generation = 1;  // of the CompileCache that put_cache() puts
  Settings settings;
  ClusterStores stores;
  ClusterView view{stores};
  kube::Store<ClaimView> claims;
  SweepJobs jobs;
  InvalidCaches invalid;
  PodLedger pods;
  CacheStats stats{32, pods};
  Metrics metrics;
  RecordedEvents events;
  std::string saving;  // the archive that somebody is saving
  bool leading = true;
  Result<api::DeviceFacts> devices = api::DeviceFacts{};  // of the pods' claims
  std::function<void()> on_judging = [] {};               // in the middle of it, what is in use
  kube::Client client = client_of(server);
  Sweeper sweeper{client,
                  settings,
                  {.image = "image:1", .agent_ca = [] { return "PEM"; }},
                  view,
                  jobs,
                  metrics,
                  clock,
                  seeded_random(1)};
  BreakerKeeper breaker{client, settings, view, pods, sweeper, events, false, clock};
  StatusWriter writer{client, settings.status_interval, clock};
  CrashWatch crashes{pods};
  KubeArchiveClient archive_client{client};
  ArchiveRegistry registry{archive_client, settings.status_interval, clock};
  HeardPods heard{settings.agent};
  ControllerParts parts() {
    return {client,
            settings,
            stores,
            view,
            claims,
            invalid,
            stats,
            crashes,
            registry,
            sweeper,
            breaker,
            heard,
            writer,
            events,
            metrics,
            [this] { return leading; },
            [this](const std::string& ns, const std::string& archive) {
              on_judging();
              return ns == "ml" && saving == archive;
            },
            [this](const PodView&, const std::string&) { return devices; }};
  }
  CompileCacheController controller{parts(), clock};
};

}  // namespace compilecache::controller::test
