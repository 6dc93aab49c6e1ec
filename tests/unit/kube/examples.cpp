// The examples in the headers of kube/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "kube/cancellation.hpp"
#include "kube/client.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "kube/events.hpp"
#include "kube/fields.hpp"
#include "kube/leader_election.hpp"
#include "kube/protobuf.hpp"
#include "kube/reflector.hpp"
#include "kube/reflector_machine.hpp"
#include "kube/resource.hpp"
#include "kube/store.hpp"
#include "kube/worker.hpp"
#include "kube/workqueue.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::kube::examples {

using Json = nlohmann::json;
struct Pod {
  std::string owner_uid;
};
struct Controllers {
  void start() {}
  void stop() {}
};

inline void cancellation(const std::shared_ptr<HttpTransport>& transport,
                         const HttpRequest& request, const LineHandler& on_line) {
  Cancellation cancel;
  std::thread worker([=] { transport->stream(request, on_line, cancel); });
  cancel.cancel();
  worker.join();
}

inline bool get(const std::shared_ptr<HttpTransport>& transport) {
  Client client(transport);
  auto pod = client.get(resources::kPods, "ml", "web-1");
  if (!pod && pod.error().code == ErrorCode::kNotFound) return false;
  return true;
}

inline int config(const std::string& flag, int (*report)(const Error&)) {
  auto config = load_config({.kubeconfig = flag, .context = ""});
  if (!config) return report(config.error());
  auto transport = make_transport(*config);
  return 0;
}

inline void events(const Client& client, const std::string& uid) {
  EventRecorder events(client, "compilecache-operator");
  events.warning({"apps/v1", "Deployment", "ml", "web", uid}, "InjectionSkipped", "claim x ...");
}

inline void fields() {
  const Fields fields{"/status/phase", "/status/containerStatuses/name",
                      "/metadata/labels/compilecache.dev~1cache"};
}

inline void leader_election(const Client& client, const std::string& ns, const std::string& pod,
                            const Random& random, Controllers& controllers) {
  LeaderElector elector(
      client,
      {.ns = ns,
       .name = "compilecache-operator",
       .lease = {.identity = pod + "_" + random_id(random)}},
      {.on_started = [&] { controllers.start(); }, .on_lost = [] { std::_Exit(1); }});
  elector.start();
  controllers.stop();
  elector.stop();
}

inline void protobuf_event(std::string_view frame, const Fields& fields) {
  Json event = protobuf::parse_event(frame, protobuf::kPod, fields);
}

inline void reflector(const Client& client, Result<Pod> (*parse_pod)(const nlohmann::json&),
                      const Cancellation& cancel) {
  Store<Pod> pods;
  Reflector<Pod> reflector(client,
                           {.resource = resources::kPods,
                            .label_selector = "compilecache.dev/cache",
                            .fields = {"/status/phase"}},
                           parse_pod, pods);
  reflector.start();
  wait_for_sync({[&] { return pods.has_synced(); }}, std::chrono::minutes(2), cancel);
}

inline void machine(const reflector::State& state, const reflector::Input& input, Monotonic now,
                    const Random& random) {
  using reflector::step;
  auto [next, actions] = step(state, input, now, random);
}

inline void resource(const Client& client) {
  client.get(resources::kPods, "ml", "web-1");
  const Resource widgets{"example.com", "v1", "widgets"};
}

inline bool store(WorkQueue& queue, const std::string& uid) {
  Store<Pod> pods;
  pods.add_handlers(
      {.on_change = [&](const std::string& key, auto before, auto after) { queue.add(key); }});
  if (auto pod = pods.get("ml/web-1")) return true;

  Store<Pod>::Index by_owner(pods, [](const Pod& pod) { return pod.owner_uid; });
  for (const auto& pod : by_owner.list(uid)) return !pod->owner_uid.empty();
  return false;
}

inline void workers(WorkQueue& queue) {
  Workers workers("compilecache", queue, [&](const std::string& key) -> Result<Reconciled> {
    queue.forget(key);
    return Reconciled{.again_after = std::chrono::minutes(5)};
  });
}

inline void workqueue(WorkQueue& queue, bool (*reconcile)(const std::string&)) {
  while (auto key = queue.get()) {
    if (reconcile(*key))
      queue.forget(*key);
    else
      queue.add_rate_limited(*key);
    queue.done(*key);
  }
}

}  // namespace compilecache::kube::examples

#pragma GCC diagnostic pop
