#include "tests/e2e/sandbox.hpp"

// What compilecache.dev/mode and the other annotations change in pods that run: all of these pods
// meet the same archive, of one shape.

namespace compilecache::e2e {
namespace {

json of_app(const json& pod, const std::string& variable) {
  for (const json& container : at(pod, "/spec/containers")) {
    if (container["name"] != "app") continue;
    for (const json& one : container.value("env", json::array())) {
      if (one["name"] == variable) return one.value("value", json());
    }
  }
  return nullptr;
}

const std::vector<std::string> kSmall{"--layers", "0"};
// For many pods that compile at once.
constexpr seconds kLimit{600};

class Modes : public Sandbox {
 protected:
  // Nothing is saved by silence, unless the pod says so.
  void SetUp() override {
    Sandbox::SetUp();
    create_cache("transformer", {{"save", {{"quietPeriod", "1h"}}}});
    wait_until_ready();
    const json seed =
        run_to_ready({"seed", kSmall, "transformer", {{"compilecache.dev/quiet-period", "1s"}}});
    ASSERT_TRUE(eventually(seconds(60), [&] {
      return !archives().empty() && keys_in(archives().front()) == keys_of(seed);
    })) << "nothing was saved after a quiet second";
    seed_layers_ = layers_of(archives().front());
    remove_pod("seed");
  }

  // Entries of Inductor's, one for each shape.
  [[nodiscard]] std::set<std::string> keys_in(const json& archive) const {
    std::set<std::string> keys;
    for (const std::string& file : archived_files(archive)) {
      if (file.starts_with("torch/fxgraph/")) keys.insert(file.substr(6, file.rfind('/') - 6));
    }
    return keys;
  }
  static std::set<std::string> keys_of(const json& result) {
    return at(result, "/keys").get<std::set<std::string>>();
  }

  [[nodiscard]] static TorchPod with_mode(const std::string& name, const char* mode,
                                          std::vector<std::string> arguments) {
    return {name, std::move(arguments), "transformer", {{"compilecache.dev/mode", mode}}};
  }

  [[nodiscard]] json archive_of_version(const std::string& version) const {
    for (const json& archive : archives()) {
      if (at(archive, "/spec/key").value("Version", "") == version) return archive;
    }
    return {};
  }

  // The first is "other", which would get the cache if nothing else were said.
  [[nodiscard]] json pod_with_two_containers(const std::string& name,
                                             const std::string& chosen) const {
    json object =
        manifest({name, kSmall, "transformer", {{"compilecache.dev/containers", chosen}}});
    json other = object["spec"]["containers"][0];
    other["name"] = "other";
    other["command"] = {"sleep", "600"};
    json& containers = object["spec"]["containers"];
    containers.insert(containers.begin(), other);
    return object;
  }

  // The outcome.
  [[nodiscard]] std::string ask_for_a_save(const std::string& name) const {
    const std::string answer =
        exec(name, {"sh", "-c",
                    "cd /compilecache/cache/control && touch save && while [ -e save ]; do sleep "
                    "0.1; done && cat save.result"});
    return json::parse(answer, nullptr, false).value("outcome", answer);
  }

  void expect_one_container(const std::string& name) {
    EXPECT_EQ(at(wait_for_result(name, kLimit), "/hits"), 1);
    const json made = pod(name);
    EXPECT_EQ(at(made, "/spec/containers/0/name"), "other");
    EXPECT_EQ(at(made, "/spec/containers/0/env"), nullptr);
    EXPECT_EQ(of_app(made, "TORCHINDUCTOR_CACHE_DIR"), "/compilecache/cache/torch");
  }

  // Loads triton's files alone from an archive that holds torch's too.
  void expect_only_triton(const std::string& name) {
    wait_for_result(name, kLimit);
    EXPECT_EQ(of_app(pod(name), "TRITON_CACHE_DIR"), "/compilecache/cache/triton");
    EXPECT_EQ(of_app(pod(name), "TORCHINDUCTOR_CACHE_DIR"), nullptr);
    EXPECT_EQ(exec(name, {"ls", "/compilecache/cache"}), "control\ntriton\n");
    const json status =
        json::parse(exec(name, {"cat", "/compilecache/cache/control/status.json"}), nullptr, false);
    EXPECT_EQ(at(status, "/outcome"), "SUCCESS") << status;
  }

  void expect_force_cold(const std::string& name) {
    const json result = wait_for_result(name, kLimit);
    EXPECT_EQ(at(result, "/hits"), 0);
    EXPECT_EQ(at(result, "/misses"), 0) << "it does not even ask its cache";
    const json made = pod(name);
    EXPECT_EQ(of_app(made, "TORCHINDUCTOR_FORCE_DISABLE_CACHES"), "1");
    EXPECT_EQ(of_app(made, "VLLM_DISABLE_COMPILE_CACHE"), "1") << "vLLM would end without it";
    EXPECT_EQ(of_app(made, "TORCHINDUCTOR_CACHE_DIR"), nullptr);
    EXPECT_FALSE(made["spec"].contains("initContainers"));
  }

  void expect_not_injected(const TorchPod& asked) const {
    const auto made =
        kubectl({"create", "--dry-run=server", "-o", "json", "-f", "-"}, manifest(asked).dump());
    EXPECT_EQ(made.exit_code, 0) << made.err;
    EXPECT_EQ(made.err, "") << "a warning about what was asked for";
    const json object = json::parse(made.out, nullptr, false);
    EXPECT_FALSE(object["spec"].contains("initContainers"));
    EXPECT_EQ(at(object, "/spec/containers/0/env"), nullptr);
  }

  std::set<std::string> seed_layers_;
};

TEST_F(Modes, AndTheOtherAnnotationsDecideWhatIsLoadedAndSaved) {
  const json version{{"compilecache.dev/version", "v2"},
                     {"compilecache.dev/wait-for-first", "10m"}};
  // All at once: most of their time is torch's.
  start(with_mode("readonly", "ReadOnly", {"--layers", "0", "--shapes", "8,16"}));
  start(with_mode("refresh", "Refresh", kSmall));
  start(with_mode("cold", "ForceCold", kSmall));
  start({"first", kSmall, "transformer", version});
  ASSERT_EQ(testing::apply(pod_with_two_containers("two", "app")), "");
  start({"triton-only",
         {"--import-only"},
         "transformer",
         {{"compilecache.dev/frameworks", "triton"}}});
  // The first pod goes ahead; the loader of another one then waits.
  ASSERT_TRUE(eventually(seconds(60), [&] {
    return logs("first", "compilecache-load").find("starting cold") != std::string::npos;
  }));
  start({"second", kSmall, "transformer", version});

  expect_force_cold("cold");
  expect_not_injected(with_mode("disabled", "Disabled", kSmall));
  expect_one_container("two");
  expect_only_triton("triton-only");

  const json refresh = wait_for_result("refresh", kLimit);
  EXPECT_EQ(at(refresh, "/hits"), 0) << "it does not load";
  EXPECT_EQ(at(refresh, "/misses"), 1);
  EXPECT_EQ(ask_for_a_save("refresh"), "SUCCESS");

  const json readonly = wait_for_result("readonly", kLimit);
  EXPECT_EQ(at(readonly, "/hits"), 1) << "it loads";
  EXPECT_EQ(at(readonly, "/misses"), 1) << "and compiles what is not there";
  EXPECT_EQ(ask_for_a_save("readonly"), "SKIPPED");
  remove_pod("readonly");  // which would be its last chance to save

  const json refreshed = archive_of_version("");
  EXPECT_EQ(at(refreshed, "/status/head/savedBy"), "refresh");
  EXPECT_EQ(keys_in(refreshed), keys_of(refresh)) << "of the second shape nothing is saved";
  for (const std::string& layer : layers_of(refreshed)) {
    EXPECT_FALSE(seed_layers_.contains(layer)) << "it was extended, not written from scratch";
  }

  EXPECT_EQ(at(wait_for_result("first", kLimit), "/misses"), 1) << "another version is not loaded";
  EXPECT_EQ(logs("second", "app"), "") << "it does not wait";
  EXPECT_EQ(ask_for_a_save("first"), "SUCCESS");
  const json second = wait_for_result("second", kLimit);
  EXPECT_EQ(at(second, "/hits"), 1);
  EXPECT_EQ(at(second, "/misses"), 0);
  EXPECT_EQ(archives().size(), 2U);
}

}  // namespace
}  // namespace compilecache::e2e
