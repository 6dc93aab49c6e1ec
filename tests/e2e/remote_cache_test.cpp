#include <sstream>

#include "tests/e2e/sandbox.hpp"

// Inductor's own Redis cache: a real server, and real pods that are joined to it.

namespace compilecache::e2e {
namespace {

class RemoteCache : public Sandbox {
 protected:
  void start_redis() {
    const json labels{{"app", "redis"}};
    const json server{
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"name", "redis"}, {"namespace", ns()}, {"labels", labels}}},
        {"spec",
         {{"containers",
           {{{"name", "app"},
             {"image", next_torch_image()},
             {"imagePullPolicy", "IfNotPresent"},
             {"command", {"redis-server", "--save", "", "--protected-mode", "no", "--dir", "/tmp"}},
             {"readinessProbe", {{"exec", {{"command", {"redis-cli", "ping"}}}}}}}}}}}};
    const json service{{"apiVersion", "v1"},
                       {"kind", "Service"},
                       {"metadata", {{"name", "redis"}, {"namespace", ns()}}},
                       {"spec", {{"selector", labels}, {"ports", {{{"port", 6379}}}}}}};
    ASSERT_EQ(testing::apply(server), "");
    ASSERT_EQ(testing::apply(service), "");
    const auto waited =
        kubectl({"wait", "--for=condition=Ready", "pod/redis", "-n", ns(), "--timeout=60s"});
    ASSERT_EQ(waited.exit_code, 0) << waited.err;
  }

  [[nodiscard]] int redis_stat(const std::string& name) const {
    std::istringstream lines(exec("redis", {"redis-cli", "info", "stats"}));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(name + ":")) return std::stoi(line.substr(name.size() + 1));
    }
    return -1;
  }

  [[nodiscard]] static TorchPod pod_of(const std::string& name, const std::string& cache) {
    TorchPod pod{name, {"--layers", "0"}, cache};
    pod.image = next_torch_image();
    return pod;
  }
};

TEST_F(RemoteCache, APodHitsRedisBesideAnEmptyVolumeAndWithoutOne) {
  start_redis();
  const json redis{{"remoteCache", {{"redis", {{"host", "redis"}}}}}};
  for (const char* name : {"first", "empty"}) create_cache(name, redis);
  ASSERT_EQ(testing::apply({{"apiVersion", "compilecache.dev/v1alpha1"},
                            {"kind", "CompileCache"},
                            {"metadata", {{"name", "alone"}, {"namespace", ns()}}},
                            {"spec", redis}}),
            "");
  for (const char* name : {"first", "empty", "alone"}) wait_until_ready(name);

  const auto created = kubectl({"create", "-f", "-"}, manifest(pod_of("one", "first")).dump());
  EXPECT_NE(created.err.find("Python's package redis"), std::string::npos) << created.err;
  const json one = wait_for_result("one");
  EXPECT_EQ(at(one, "/hits"), 0);
  EXPECT_EQ(at(one, "/misses"), 1);
  EXPECT_EQ(redis_stat("keyspace_hits"), 0);
  EXPECT_NE(exec("redis", {"redis-cli", "keys", "*"}).find("fx-graph"), std::string::npos);

  start(pod_of("two", "empty"));
  start(pod_of("three", "alone"));
  for (const char* name : {"two", "three"}) {
    const json result = wait_for_result(name);
    EXPECT_EQ(at(result, "/hits"), 1) << name;
    EXPECT_EQ(at(result, "/misses"), 0) << name;
  }
  EXPECT_GE(redis_stat("keyspace_hits"), 2);
  EXPECT_NE(logs("two", "compilecache-load").find("DOES_NOT_EXIST"), std::string::npos);
  EXPECT_EQ(at(pod("three"), "/spec/initContainers"), nullptr);
  wait_until_ready("alone");

  // One volume is filled all the same, as it would be without Redis.
  EXPECT_FALSE(archived_files(wait_for_save()).empty());
}

}  // namespace
}  // namespace compilecache::e2e
