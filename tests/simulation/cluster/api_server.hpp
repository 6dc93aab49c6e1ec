#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "http/server.hpp"
#include "kube/http_transport.hpp"
#include "tests/simulation/os/scheduler.hpp"
#include "tests/support/fake_objects.hpp"

// The API server of the simulated cluster: objects with versions, watches, conflicts and 410, and
// TokenReviews of the tokens that the simulated kubelet gives out. Slow, throttled or down as its
// faults say.
//
//   ApiServer api;
//   kube::Client client(api.transport("operator-0"));
//   api.on_write = [](const std::string& method, const std::string& path) { … };

namespace compilecache::simulation {

// Until when, in nanoseconds of the run, each is so.
struct ApiFaults {
  int64_t down = 0;            // nothing connects, and watches break
  int64_t slow = 0;            // an answer takes up to kSlowAnswer, longer than some clients wait
  int64_t throttled = 0;       // one request in kSome is answered 429, with Retry-After
  int64_t failing = 0;         // one in kSome is answered 500 or 503, perhaps after it was done
  int64_t losing_answers = 0;  // one in kSome is done, but the connection breaks before the answer
  int64_t late_events = 0;     // watches tell each event up to kLateEvent late
  int64_t busy = 0;            // others write to the object before one write in kSome
  std::map<std::string, int64_t> partitioned;  // clients that do not reach it, by name
  // By client: a watch that began before that time says nothing any more, without being closed.
  std::map<std::string, int64_t> dead_watches;

  static constexpr uint64_t kSome = 4;
  static constexpr int64_t kSlowAnswer = 40 * kSecond;
  static constexpr int64_t kLateEvent = 20 * kSecond;
};

class ApiServer {
 public:
  // A client's way here; `client` names it in the faults. Thread-safe; `this` outlives it.
  std::shared_ptr<kube::HttpTransport> transport(const std::string& client);

  // The token that a pod's projected volume has.
  static std::string token_of(const std::string& ns, const std::string& pod, const std::string& uid,
                              const std::string& node);
  // The namespace and name in such a token.
  static std::pair<std::string, std::string> pod_of(std::string_view token);

  // Creates a pod as its user does: the webhook is asked, for 3 s, and without its answer the pod
  // is created as it is (failurePolicy: Ignore). Returns the object.
  nlohmann::json create_pod(nlohmann::json pod);

  // Deletes what names this uid as its owner, as the garbage collector does.
  void delete_dependents(const std::string& uid);
  // Tells every watch of the operator's objects that nothing is missing, as an API server does each
  // minute.
  void bookmark();
  // As another client that changes something that the operator does not look at.
  void touch(const std::string& collection, const std::string& key);

  testing::FakeObjects objects;
  ApiFaults faults;
  // Called after each write that a client made, before it is answered.
  std::function<void(const std::string& method, const std::string& path)> on_write;
  // The webhook, as the API server reaches it; false: nobody listens.
  std::function<bool(http::Request, http::Responder)> webhook;
  uint64_t requests = 0;
  uint64_t writes = 0;

 private:
  class Transport;
};

// Paths of collections.
constexpr char kCaches[] = "/apis/compilecache.dev/v1alpha1/compilecaches";
constexpr char kArchives[] = "/apis/compilecache.dev/v1alpha1/compilecachearchives";
constexpr char kJobs[] = "/apis/batch/v1/jobs";
constexpr char kPods[] = "/api/v1/pods";
constexpr char kNodes[] = "/api/v1/nodes";
constexpr char kServices[] = "/api/v1/services";
constexpr char kNamespaces[] = "/api/v1/namespaces";
constexpr char kDeployments[] = "/apis/apps/v1/deployments";

}  // namespace compilecache::simulation
