#include "tests/simulation/installation/world.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/agent_api.hpp"
#include "api/names.hpp"
#include "operator/leader_session.hpp"

namespace compilecache::simulation {
namespace {

using Json = nlohmann::json;

constexpr char kOperatorNamespace[] = "compilecache-system";
constexpr char kEndpointSlices[] = "/apis/discovery.k8s.io/v1/endpointslices";
constexpr int64_t kRegistryRestart = 15 * kSecond;
constexpr int64_t kReplicaRestart = 5 * kSecond;
// Archives are small here: a registry is collected after this much of them.
constexpr int64_t kCollectAbove = 64 << 10;
// For loads from one store: few, so that a crowd of pods needs more.
constexpr int kPlaces = 4;
constexpr int64_t kBookmarks = 60 * kSecond;

Json of_operator(const char* name) { return {{"name", name}, {"namespace", kOperatorNamespace}}; }

}  // namespace

World::World(const WorldOptions& options) {
  auto settings = controller::load_settings(options.settings_file);
  if (!settings) {
    std::fprintf(stderr, "%s\n", settings.error().message.c_str());
    std::abort();
  }
  settings->registry.enabled = true;
  settings->registry.collect_above = kCollectAbove;
  settings->limits.max_concurrent_loads = kPlaces;
  view_.places = kPlaces;
  make_objects();
  api.on_write = [this](const std::string& method, const std::string& path) {
    wrote(method, path);
  };
  network().registry = &registry;
  network().agent_api = [this](const std::string& address, http::Request request,
                               http::Responder respond) {
    serve_agent(address, std::move(request), std::move(respond));
  };
  api.webhook = [this](http::Request request, http::Responder respond) {
    OperatorReplica& replica = *replicas_[services_.below(replicas_.size())];
    return replica.review(std::move(request), std::move(respond));
  };
  network().answered = [this](const AnsweredCall& call) { answered(call); };
  start_thread(kWorld, "bookmarks", [this] {
    for (;; sleep_for_ns(kBookmarks)) api.bookmark();
  });
  invariants_ = all_invariants(view_);
  for (const auto& invariant : invariants_) {
    invariant->report_to([this](const std::string& sentence, const std::string& detail) {
      violations_.push_back({now_ns(), sentence, detail});
      if (on_violation) on_violation(violations_.back());
    });
  }
  pods_ = std::make_unique<Pods>(Pods::Parts{api, options.folder,
                                             [this](const CreatedPod& pod) {
                                               for (const auto& invariant : invariants_)
                                                 invariant->pod_created(pod);
                                             },
                                             [this](const std::string& pod) {
                                               for (const auto& invariant : invariants_)
                                                 invariant->loader_ended(pod);
                                             },
                                             [this](const EndedLoad& load) {
                                               for (const auto& invariant : invariants_)
                                                 invariant->load_ended(load);
                                             },
                                             [this](const EndedSave& save) {
                                               for (const auto& invariant : invariants_)
                                                 invariant->save_ended(save);
                                             }});
  for (int i = 0; i < 2; ++i) {
    replicas_.push_back(std::make_unique<OperatorReplica>(
        api, ReplicaOptions{.name = "operator-" + std::to_string(i),
                            .address = "10.1.0." + std::to_string(i + 1),
                            .ns = kOperatorNamespace,
                            .settings = *settings}));
    replicas_.back()->start();
  }
}

void World::make_objects() {
  api.objects.put(kNamespaces, {{"metadata", {{"name", "kube-system"}}}});
  api.objects.put(kServices, {{"metadata", of_operator(api::kAgentService)},
                              {"spec", {{"clusterIP", kAgentAddress}}}});
  api.objects.put(kServices, {{"metadata", of_operator(api::kLoadService)},
                              {"spec", {{"clusterIP", kLoadAddress}}}});
  api.objects.put(kServices,
                  {{"metadata", of_operator(api::kRegistryService)},
                   {"spec", {{"clusterIP", "10.0.0.9"}, {"ports", {{{"port", 5000}}}}}}});
  api.objects.put(kDeployments,
                  {{"metadata", of_operator(api::kRegistryService)},
                   {"spec", {{"template", {{"metadata", {{"annotations", Json::object()}}}}}}},
                   {"status",
                    {{"observedGeneration", 99},
                     {"replicas", 1},
                     {"updatedReplicas", 1},
                     {"readyReplicas", 1}}}});
  for (const char* node : {"n-h100", "n-a100"}) {
    api.objects.put(
        kNodes,
        {{"metadata",
          {{"name", node},
           {"labels", {{"nvidia.com/gpu.product", node + 2}, {"kubernetes.io/arch", "amd64"}}}}}});
  }
}

// The agents' Service has no selector: its EndpointSlice names the leader. The Service for loads
// has all replicas, also one that was stopped a moment ago.
OperatorReplica* World::replica_behind(const std::string& address) {
  if (address == kLoadAddress) return replicas_[services_.below(replicas_.size())].get();
  for (const auto& [key, slice] : api.objects.all(kEndpointSlices)) {
    for (const Json& endpoint : slice.value("endpoints", Json::array())) {
      for (const auto& replica : replicas_) {
        if (endpoint["addresses"][0] == replica->address()) return replica.get();
      }
    }
  }
  return nullptr;
}

void World::serve_agent(const std::string& address, http::Request request,
                        http::Responder respond) {
  OperatorReplica* replica = replica_behind(address);
  if (replica != nullptr && replica->serve(std::move(request), respond)) return;
  respond(http::text_response(503, "nobody listens"));
}

void World::answered(const AnsweredCall& call) {
  if (call.request.path != "/v1/load" || call.response.status != 200) return;
  const auto answer = api::parse<api::LoadAnswer>(call.response.body);
  if (!answer || answer->decision != api::LoadDecision::kLoad) return;
  const auto [ns, pod] = ApiServer::pod_of(call.request.bearer_token().value_or(""));
  if (ns == view_.hostile) return;
  const auto asked = api::parse<api::LoadRequest>(call.request.body);
  const AnsweredLoad load{.pod = ns + "/" + pod,
                          .ns = ns,
                          .cache = asked ? asked->cache : "",
                          .archive = answer->archive,
                          .manifest_digest = answer->manifest_digest,
                          .began_ns = call.began_ns};
  for (const auto& invariant : invariants_) invariant->load_answered(load);
}

void World::wrote(const std::string& method, const std::string& path) {
  if (method == "POST" && path.ends_with("/jobs")) {
    start_thread(kWorld, "jobs", [this] { pods_->start_new_jobs(); });
  }
  if (method == "PATCH" && path.find("/deployments/") != std::string::npos) {
    start_thread(kWorld, "registry's pod", [this] { restart_registry(); });
  }
  if (path.find("/compilecachearchives/") == std::string::npos) return;
  if (method == "PUT") archive_written(path);
  if (method == "DELETE") archive_deleted(path);
}

// path: "/apis/compilecache.dev/v1alpha1/namespaces/NS/compilecachearchives/NAME".
void World::archive_deleted(const std::string& path) {
  for (const auto& [key, archive] : archives_) {
    const auto& metadata = archive.metadata;
    if (!path.ends_with("/" + metadata.ns + "/compilecachearchives/" + metadata.name)) continue;
    for (const auto& invariant : invariants_) invariant->archive_deleted(archive);
    archives_.erase(key);
    return;
  }
}

// path: "/apis/compilecache.dev/v1alpha1/namespaces/NS/compilecachearchives/NAME/status".
void World::archive_written(const std::string& path) {
  for (const auto& [key, object] : api.objects.all(kArchives)) {
    const std::string ns = object["metadata"]["namespace"];
    const std::string name = object["metadata"]["name"];
    if (path.find("/" + ns + "/compilecachearchives/" + name + "/") == std::string::npos) continue;
    const auto archive = api::parse_archive(object);
    if (!archive) continue;
    if (ns == view_.hostile) continue;
    archives_[key] = *archive;
    for (const auto& invariant : invariants_) invariant->archive_written(*archive);
  }
}

void World::trouble(const char* kind, int64_t duration) {
  std::fprintf(stderr, "FAULT %s for %ld s\n", kind, duration / kSecond);
  view_.troubles.emplace_back(now_ns(), now_ns() + duration);
  view_.trouble_until = std::max(view_.trouble_until, now_ns() + duration);
}

void World::restart_registry() {
  ++registry_restarts_;
  set_registry_ready(false);
  registry.faults.down = std::max(registry.faults.down, now_ns() + kRegistryRestart);
  blobs_collected_ += registry.collect();
  sleep_for_ns(kRegistryRestart);
  set_registry_ready(true);
}

void World::set_registry_ready(bool ready) {
  const auto deployments = api.objects.all(kDeployments);
  Json deployment = deployments.begin()->second;
  deployment["status"]["readyReplicas"] = ready ? 1 : 0;
  api.objects.put(kDeployments, deployment);
}

void World::create_cache(const std::string& ns, const std::string& name,
                         const std::string& retention) {
  view_.deleted.erase(ns + "/" + name);
  api.objects.put(kCaches, {{"metadata",
                             {{"name", name},
                              {"namespace", ns},
                              {"generation", 1},
                              {"creationTimestamp", "2027-01-01T00:00:00Z"}}},
                            {"spec",
                             {{"storage", Json::object()},
                              {"frameworks", {"torch"}},
                              {"retention", {{"unusedFor", retention}}}}}});
}

void World::delete_cache(const std::string& ns, const std::string& name) {
  const auto caches = api.objects.all(kCaches);
  const auto found = caches.find(ns + "/" + name);
  if (found == caches.end()) return;
  api.objects.erase(kCaches, ns, name);
  view_.deleted[ns + "/" + name] = now_ns();
  sleep_for_ns(5 * kSecond);  // the garbage collector's time
  api.delete_dependents(found->second["metadata"]["uid"]);
}

void World::pass(int64_t days) {
  for (int64_t hour = 0; hour < days * 24; ++hour) {
    for (int64_t at = 0; at < kHour; at += kReplicaRestart * 12) {
      sleep_for_ns(kReplicaRestart * 12);
      for (const auto& replica : replicas_) {
        if (!replica->is_alive()) replica->start();
      }
    }
    for (const auto& invariant : invariants_) invariant->hour_passed();
  }
}

}  // namespace compilecache::simulation
