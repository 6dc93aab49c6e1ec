#include "operator/settings/settings.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace compilecache::controller {
namespace {

std::string shipped_file() {
  std::ifstream file(testing::in_tree("config/settings.yaml"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string error_of(const std::string& text) {
  const auto settings = parse_settings(text, "settings.yaml");
  return settings ? "" : settings.error().message;
}

TEST(Settings, AnEmptyFileMeansTheDefaults) {
  EXPECT_EQ(parse_settings("", "settings.yaml").value(), Settings());
  EXPECT_EQ(parse_settings("# nothing\n", "settings.yaml").value(), Settings());
}

TEST(Settings, TheShippedFileIsReadAndSaysTheDefaults) {
  const auto settings = parse_settings(shipped_file(), "config/settings.yaml");
  ASSERT_TRUE(settings) << settings.error().message;
  const Settings defaults;
  EXPECT_EQ(settings->limits, defaults.limits);
  EXPECT_EQ(settings->agent, defaults.agent);
  EXPECT_EQ(settings->save, defaults.save);
  EXPECT_EQ(settings->sweep, defaults.sweep);
  EXPECT_EQ(settings->breaker, defaults.breaker);
  EXPECT_EQ(settings->status_interval, defaults.status_interval);
  EXPECT_EQ(settings->certificates, defaults.certificates);
  EXPECT_EQ(settings->token_cache, defaults.token_cache);
  EXPECT_EQ(settings->registry, defaults.registry);
  const frameworks::Framework& torch = settings->frameworks.at("torch");
  EXPECT_EQ(torch.name, "torch");
  EXPECT_EQ(torch.env.at("TORCHINDUCTOR_CACHE_DIR"), "{directory}");
  EXPECT_FALSE(torch.entry_directories.empty());
  EXPECT_TRUE(settings->frameworks.contains("triton"));
}

TEST(Settings, TheBreakersTimesFitTogether) {
  EXPECT_EQ(parse_settings("breaker: {pause: 5s}", "s.yaml").value().breaker.pause,
            std::chrono::seconds(5));
  EXPECT_NE(error_of("breaker: {patience: 10m}").find("breaker.oneNode: must be at least patience"),
            std::string::npos);
  EXPECT_NE(error_of("breaker: {pause: 2h}").find("breaker.longestPause: must be at least pause"),
            std::string::npos);
  EXPECT_NE(error_of("breaker: {sharePercent: 0}").find("out of range"), std::string::npos);
}

TEST(Settings, ADriversDevicesHaveAProduct) {
  const auto shipped = parse_settings(shipped_file(), "config/settings.yaml");
  ASSERT_TRUE(shipped) << shipped.error().message;
  EXPECT_EQ(shipped->device_drivers.at("gpu.nvidia.com"),
            (api::DeviceDriver{"productName", "driverVersion", "profile", "-MIG-", {"gpu"}, "-"}));
  const auto own = parse_settings("deviceDrivers: {gpu.example.com: {product: model}}", "s.yaml");
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->device_drivers.at("gpu.example.com"), (api::DeviceDriver{.product = "model"}));
  EXPECT_EQ(error_of("deviceDrivers:\n  a.b: {profile: p}\n"),
            "settings.yaml:2: deviceDrivers.a.b.product: say which attribute names the product");
  EXPECT_NE(error_of("deviceDrivers: [a.b]").find("must be a mapping of names to drivers"),
            std::string::npos);
  EXPECT_NE(error_of("deviceDrivers: {a.b: {products: p}}").find("products"), std::string::npos);
}

TEST(Settings, TheRegistrysAreCheckedAtTheStart) {
  const auto settings = parse_settings(
      "registry: {enabled: true, namespaceShare: 1Gi, collectAbove: 2Gi, collectInterval: 48h, "
      "quietFor: 10m, collectWithin: 3h, checkInterval: 5m, keepDeleted: 72h}",
      "s.yaml");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->registry, (Settings::Registry{.enabled = true,
                                                    .namespace_share = 1ULL << 30,
                                                    .collect_above = 2ULL << 30,
                                                    .collect_interval = std::chrono::hours(48),
                                                    .quiet_for = std::chrono::minutes(10),
                                                    .collect_within = std::chrono::hours(3),
                                                    .check_interval = std::chrono::minutes(5),
                                                    .keep_deleted = std::chrono::hours(72)}));
  EXPECT_NE(error_of("registry:\n  namespaceShare: many").find("2: registry.namespaceShare: "),
            std::string::npos);
  EXPECT_NE(error_of("registry: {namespaceShare: [1]}").find("must be a quantity like 5Gi"),
            std::string::npos);
  EXPECT_NE(error_of("registry: {collectInterval: 1m}").find("out of range"), std::string::npos);
  EXPECT_NE(error_of("registry: {port: 1}").find("is no setting"), std::string::npos);
}

TEST(Settings, AreTaken) {
  const auto settings = parse_settings(R"(
agentImage: example.org/compile-cache:1
gpuResources: [example.org/gpu]
limits: {maxConcurrentSaves: 3}
agent: {indexFallback: false, address: 10.0.0.7, port: 8443}
resources:
  saver: {requests: {cpu: 5m}, limits: {memory: 1Gi}}
save: {firstQuietPeriod: 5s}
sweep: {grace: 1h30m}
statusInterval: 250ms
frameworks:
  mine:
    env: {MY_CACHE: "{directory}/x"}
    completions: [{directory: "a/*", marker: done}]
    keyParts: [DriverVersion]
)",
                                       "settings.yaml");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->agent_image, "example.org/compile-cache:1");
  EXPECT_EQ(settings->gpu_resources, std::vector<std::string>{"example.org/gpu"});
  EXPECT_EQ(settings->limits.max_concurrent_saves, 3);
  EXPECT_FALSE(settings->agent.index_fallback);
  EXPECT_EQ(settings->agent.port, 8443);
  EXPECT_EQ(settings->resources.saver.requests.at("cpu"), "5m");
  EXPECT_EQ(settings->save.first_quiet_period, std::chrono::seconds(5));
  EXPECT_EQ(settings->sweep.grace, std::chrono::minutes(90));
  EXPECT_EQ(settings->status_interval, std::chrono::milliseconds(250));
  const frameworks::Framework& mine = settings->frameworks.at("mine");
  EXPECT_EQ(mine.completions.at(0).marker, "done");
  EXPECT_EQ(mine.key_parts, std::vector<std::string>{"DriverVersion"});
}

TEST(Settings, EachMistakeIsNamedWithKeyAndLine) {
  EXPECT_EQ(error_of("\nlimits:\n  maxConcurrentSaves: 0\n"),
            "settings.yaml:3: limits.maxConcurrentSaves: 0 is out of range, allowed 1 to 10000");
  EXPECT_EQ(
      error_of("limits:\n  maxConcurrentSaves: many\n"),
      "settings.yaml:2: limits.maxConcurrentSaves: must be a whole number, allowed 1 to 10000");
  EXPECT_EQ(error_of("agent: {indexFallback: perhaps}\n"),
            "settings.yaml:1: agent.indexFallback: must be true or false");
  EXPECT_EQ(error_of("certificates: {authorityLife: 24h, leafLife: 4h}\n"),
            "settings.yaml:1: certificates.leafLife: must be at most an eighth of authorityLife");
  EXPECT_EQ(error_of("save: {firstQuietPeriod: 0s}\n"),
            "settings.yaml:1: save.firstQuietPeriod: 0s is out of range, allowed 1s to 24h");
  EXPECT_EQ(error_of("statusInterval: 1h\n"),
            "settings.yaml:1: statusInterval: 1h is out of range, allowed 100ms to 10m");
  EXPECT_NE(error_of("sweep:\n  grace: soon\n").find("settings.yaml:2: sweep.grace: "),
            std::string::npos);
  EXPECT_NE(error_of("resources: {loader: {limits: {memory: lots}}}\n")
                .find("settings.yaml:1: resources.loader.limits.memory: "),
            std::string::npos);
  EXPECT_EQ(error_of("gpuResources: nvidia.com/gpu\n"),
            "settings.yaml:1: gpuResources: must be a list of texts");
  EXPECT_EQ(error_of("- a\n- b\n"), "settings.yaml:1: must be a mapping of keys to values");
}

TEST(Settings, UnknownAndDuplicateKeysAreRefused) {
  const std::string unknown = error_of("limits:\n  maxConcurentSaves: 5\n");
  EXPECT_NE(unknown.find("settings.yaml:2: limits.maxConcurentSaves: is no setting; there are "
                         "maxConcurrentSaves"),
            std::string::npos)
      << unknown;
  EXPECT_EQ(error_of("agentImage: a\nagentImage: b\n"),
            "settings.yaml:2: agentImage: is there twice; keep one");
}

TEST(Settings, AllMistakesAreSaidAtOnce) {
  const std::string text = error_of("limits: {recentPods: 0}\ntokenCache: 1d\nfoo: 1\n");
  EXPECT_NE(text.find("settings.yaml:1: limits.recentPods"), std::string::npos);
  EXPECT_NE(text.find("settings.yaml:2: tokenCache"), std::string::npos);
  EXPECT_NE(text.find("settings.yaml:3: foo"), std::string::npos);
}

TEST(Settings, TextThatIsNoYamlIsNamedWithItsLine) {
  EXPECT_EQ(error_of("limits: {\n").rfind("settings.yaml:", 0), 0U);
  EXPECT_NE(error_of("a: b: c\n").find("settings.yaml:1: "), std::string::npos);
}

TEST(Settings, FrameworksAreChecked) {
  EXPECT_NE(error_of("frameworks:\n  Torch: {}\n").find("settings.yaml:2: frameworks.Torch: "),
            std::string::npos);
  EXPECT_NE(error_of("frameworks:\n  mine:\n    directoryVariable: DIR\n")
                .find("settings.yaml:3: frameworks.mine.directoryVariable: DIR must also be among"),
            std::string::npos);
  EXPECT_NE(error_of("frameworks:\n  mine:\n    completions:\n      - {directory: a}\n")
                .find("settings.yaml:4: frameworks.mine.completions: needs"),
            std::string::npos);
}

TEST(Settings, OnlyIfUnsetAndPartOfAreChecked) {
  const std::string mine = "frameworks:\n  mine:\n    env: {DIR: \"{directory}\"}\n";
  EXPECT_EQ(error_of(mine + "    directoryVariable: DIR\n    onlyIfUnset: true\n"), "");
  EXPECT_EQ(error_of(mine + "    onlyIfUnset: true\n"),
            "settings.yaml:4: frameworks.mine.onlyIfUnset: needs a directoryVariable");
  EXPECT_EQ(error_of(mine + "    partOf: [other]\n"),
            "settings.yaml:4: frameworks.mine.partOf: \"other\" is none of the frameworks here");
}

TEST(Settings, AStartKitSaysWhatItBringsAndSinceWhen) {
  const std::string mine = "frameworks:\n  mine:\n    env: {}\n    startKit:\n";
  EXPECT_EQ(error_of(mine + "      PLAN: {value: \"1\", since: mine 2, brings: plans}\n"), "");
  EXPECT_EQ(error_of(mine + "      PLAN: {value: \"1\", since: mine 2}\n"),
            "settings.yaml:5: frameworks.mine.startKit.PLAN: needs a value, since which release it "
            "is known, and what it brings");
  EXPECT_EQ(error_of(mine + "      PLAN: {value: \"1\", since: mine 2, brings: plans, by: x}\n")
                .substr(0, 15),
            "settings.yaml:5");
}

TEST(Settings, TrapsAreChecked) {
  const std::string start = "frameworks: {mine: {env: {}}}\ntraps:\n  odd:\n";
  const std::string good = "    frameworks: [mine]\n    images: [x*]\n    warning: beware\n";
  EXPECT_EQ(error_of(start + good), "");
  EXPECT_EQ(error_of(start + "    frameworks: [yours]\n    images: [x*]\n    warning: beware\n"),
            "settings.yaml:4: traps.odd.frameworks: \"yours\" is none of the frameworks here");
  EXPECT_NE(error_of(start + "    images: [x*]\n    warning: beware\n")
                .find("settings.yaml:4: traps.odd.frameworks: say for which"),
            std::string::npos);
  EXPECT_NE(error_of(start + "    frameworks: [mine]\n    warning: beware\n")
                .find("settings.yaml:4: traps.odd: is recognised by nothing"),
            std::string::npos);
  EXPECT_NE(error_of(start + "    frameworks: [mine]\n    images: [x]\n    warning: \"" +
                     std::string(191, 'x') + "\"\n")
                .find("settings.yaml:6: traps.odd.warning: must have 1 to 190"),
            std::string::npos);
  EXPECT_NE(error_of(start + good + "  odd:\n" + good).find("settings.yaml:7: traps.odd: is there"),
            std::string::npos);
  EXPECT_NE(
      error_of(start + good + "    regex: x\n").find("settings.yaml:7: traps.odd.regex: is no"),
      std::string::npos);
}

TEST(Settings, AMissingFileSaysWhatToDo) {
  const auto settings = load_settings("/nonexistent/settings.yaml");
  ASSERT_FALSE(settings);
  EXPECT_NE(settings.error().message.find("/nonexistent/settings.yaml"), std::string::npos);
  EXPECT_NE(settings.error().message.find("--settings"), std::string::npos);
}

}  // namespace
}  // namespace compilecache::controller
