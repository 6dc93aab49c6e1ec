#include "tests/e2e/sandbox.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::e2e {
namespace {

class Prewarm : public Sandbox {
 protected:
  json deployment(const std::string& shapes) const {
    json pod = manifest({"web", {"--shapes", shapes}});
    // Ready when it has compiled, as servers are; prewarm goes by that.
    pod["spec"]["containers"][0]["readinessProbe"] = {
        {"exec",
         {{"command", {"sh", "-c", "ls \"$TORCHINDUCTOR_CACHE_DIR\"/fxgraph/*/*/* && sleep 1"}}}},
        {"periodSeconds", 1},
        {"timeoutSeconds", 10}};
    const json labels{{"app", "web"}};
    return {{"apiVersion", "apps/v1"},
            {"kind", "Deployment"},
            {"metadata", {{"name", "web"}, {"namespace", ns()}}},
            {"spec",
             {{"selector", {{"matchLabels", labels}}},
              {"template",
               {{"metadata", {{"labels", labels}, {"annotations", pod["metadata"]["annotations"]}}},
                {"spec", pod["spec"]}}}}}};
  }
  testing::ProcessResult prewarm() const {
    return testing::run_process({testing::in_build("cli/kubectl-compilecache"), "prewarm",
                                 "deployment/web", "-n", ns(), "-o", "json", "--timeout", "5m"});
  }
  std::vector<json> pods(const std::string& selector) const {
    const json items = at(get_json({"pods", "-n", ns(), "-l", selector}), "/items");
    return items.is_array() ? items.get<std::vector<json>>() : std::vector<json>();
  }
};

TEST_F(Prewarm, TheRollOutAfterItHasNoColdPod) {
  create_cache();
  wait_until_ready();
  json web = deployment("8");
  web["spec"]["replicas"] = 0;
  ASSERT_EQ(testing::apply(web), "");
  ASSERT_EQ(testing::apply({{"apiVersion", "v1"},
                            {"kind", "Service"},
                            {"metadata", {{"name", "web"}, {"namespace", ns()}}},
                            {"spec",
                             {{"selector", {{"app", "web"}}},
                              {"publishNotReadyAddresses", true},
                              {"ports", json::array({{{"port", 80}}})}}}}),
            "");

  const auto first = prewarm();
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  const json warmed = json::parse(first.out);
  ASSERT_EQ(warmed.size(), 1u);
  EXPECT_EQ(at(warmed, "/0/outcome"), "warmed") << first.err;
  EXPECT_EQ(at(warmed, "/0/gpuProduct"), "cpu-amd64");
  EXPECT_TRUE(pods("compilecache.dev/prewarm").empty());
  ASSERT_EQ(archives().size(), 1u);
  EXPECT_EQ(at(archives()[0], "/metadata/name"), at(warmed, "/0/archive"));
  EXPECT_EQ(at(archives()[0], "/status/head/savedBy"), at(warmed, "/0/pod"));

  const auto again = prewarm();
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(at(json::parse(again.out), "/0/outcome"), "already warm");

  kubectl({"scale", "deployment/web", "-n", ns(), "--replicas=1"});
  ASSERT_TRUE(eventually(seconds(30), [&] { return pods("app=web").size() == 1; }));
  const std::string pod = at(pods("app=web")[0], "/metadata/name");
  const json result = wait_for_result(pod);
  EXPECT_EQ(at(result, "/misses"), 0) << "the pod of the roll-out compiled";
  EXPECT_GE(at(result, "/hits").get<int>(), 1);
}

}  // namespace
}  // namespace compilecache::e2e
