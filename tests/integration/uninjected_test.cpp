// Pods that are not injected, as users see why.

#include <set>
#include <sstream>

#include "tests/integration/operator_fixture.hpp"

namespace compilecache::testing {
namespace {

class Uninjected : public ReviewedPods {
 protected:
  // What kubectl prints beside the object when such a pod is created.
  ProcessResult create(const json& annotations, const json& labels = json::object()) const {
    json pod = plain_pod("web", "");
    pod["metadata"]["annotations"] = annotations;
    pod["metadata"]["labels"] = labels;
    return kubectl({"create", "--dry-run=server", "-o", "name", "-f", "-"}, pod.dump());
  }
};

TEST_F(Uninjected, AMisspeltAnnotationIsWarnedAboutByTheApiServer) {
  send_pods_to_the_webhook();
  const std::string near =
      "Warning: compilecache.dev/cach: no such annotation; did you mean compilecache.dev/cache?";
  // Until the API server has seen the configuration.
  ProcessResult created;
  EXPECT_TRUE(eventually(seconds(30),
                         [&] {
                           created = create({{"compilecache.dev/cach", "transformer"}});
                           return created.err.find(near) != std::string::npos;
                         }))
      << created.err << process->log();
  EXPECT_EQ(created.exit_code, 0);
  EXPECT_EQ(created.out, "pod/web\n");
  created = create(json::object(), {{"compilecache.dev/cache", "transformer"}});
  EXPECT_NE(created.err.find("is a label of the pod"), std::string::npos) << created.err;
  EXPECT_EQ(created.exit_code, 0);
}

TEST_F(Uninjected, APodWithoutAKeyOfOursIsNotSentToTheWebhook) {
  send_pods_to_the_webhook();
  ASSERT_TRUE(eventually(seconds(30), [&] {
    return create({{"compilecache.dev/x", ""}}).err.find("no such annotation") != std::string::npos;
  })) << process->log();
  // How often it was asked.
  const auto reviews = [] {
    int count = 0;
    std::istringstream lines(process->get("/metrics").second);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("compilecache_webhook_requests_total")) continue;
      count += std::stoi(line.substr(line.rfind(' ') + 1));
    }
    return count;
  };
  const int before = reviews();
  ASSERT_GT(before, 0);
  EXPECT_EQ(create({{"example.com/cache", "x"}}, {{"app", "web"}}).exit_code, 0);
  EXPECT_EQ(create(json::object()).err, "");
  EXPECT_EQ(reviews(), before);
}

// The reasons of the pod's own Events, as `kubectl describe pod` lists them.
std::set<std::string> events_of(const std::string& ns, const std::string& pod) {
  std::set<std::string> reasons;
  for (const json& event : read_list({"events", "-n", ns, "--field-selector",
                                      "involvedObject.kind=Pod,involvedObject.name=" + pod})) {
    reasons.insert(at(event, "/reason").get<std::string>());
  }
  return reasons;
}

TEST_F(Uninjected, APodsEventsSayThatItWasInjectedLoadedAndSaved) {
  make_ready_cache("transformer");
  const std::string token = run_pod("web", "transformer");
  ASSERT_EQ(commit(token, granted(token, "transformer", "a1"), "one").first, 200);
  const json found = process->call("POST", "/v1/load", token, {{"cache", "transformer"}}).second;
  process->call("POST", "/v1/loaded", token,
                {{"cache", "transformer"},
                 {"outcome", "SUCCESS"},
                 {"match", "exact"},
                 {"archive", found.at("archive")},
                 {"manifest_digest", found.at("manifest_digest")},
                 {"milliseconds", 37},
                 {"source", "operator"}});
  EXPECT_TRUE(eventually(seconds(30), [&] {
    return events_of(ns, "web") == std::set<std::string>{"CacheLoaded", "CacheSaved", "Injected"};
  })) << ::testing::PrintToString(events_of(ns, "web"));
}

}  // namespace
}  // namespace compilecache::testing
