#include <gtest/gtest.h>

#include "operator/metrics/metrics.hpp"
#include "operator/options.hpp"
#include "operator/versions.hpp"

namespace compilecache::controller {
namespace {

TEST(Versions, AreReadAsProvidersWriteThem) {
  EXPECT_EQ(parse_version("v1.35.4"), (KubernetesVersion{1, 35}));
  EXPECT_EQ(parse_version("v1.30.2-eks-1552ad0"), (KubernetesVersion{1, 30}));
  EXPECT_EQ(parse_version("1.33+"), (KubernetesVersion{1, 33}));
  EXPECT_FALSE(parse_version("latest"));
  EXPECT_FALSE(parse_version(""));
}

TEST(Versions, KubeletsBelow130AreNamed) {
  const auto old = too_old({{"a", "v1.29.9"}, {"b", "v1.30.0"}, {"c", "unknown"}});
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(old[0].node, "a");
}

TEST(MetricsText, CountsByBoundedLabels) {
  Metrics metrics;
  bool leads = false;
  metrics.set_leader([&] { return leads; });
  metrics.load({"ml", "transformer", "H100", api::LoadOutcome::kExact, 0.2});
  metrics.save("ml", "transformer", api::SaveOutcome::kCommitted);
  metrics.webhook_request("injected", 0.001);
  auto has = [&](const char* line) {
    const bool found = metrics.text().find(line) != std::string::npos;
    EXPECT_TRUE(found) << line << "\n" << metrics.text();
  };
  has("compilecache_loads_total{cache=\"transformer\",gpu_product=\"H100\",namespace=\"ml\","
      "outcome=\"exact\"} 1");
  has("compilecache_webhook_requests_total{reason=\"injected\"} 1");
  has("compilecache_webhook_requests_total{reason=\"cache_not_found\"} 0");
  has("compilecache_leader 0");
  leads = true;
  has("compilecache_leader 1");
}

ParsedOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "compilecache-operator");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  auto parsed = parse_options(static_cast<int>(arguments.size()), arguments.data());
  ::testing::internal::GetCapturedStdout();
  ::testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(CommandLine, RunIsWhatItDoesAnyway) {
  for (const ParsedOptions& parsed :
       {parse({"--namespace", "system", "--drain", "2s", "--webhook-port", "1"}),
        parse({"run", "--namespace", "system", "--drain", "2s", "--webhook-port", "1"})}) {
    EXPECT_FALSE(parsed.exit);
    EXPECT_EQ(parsed.options.ns, "system");
    EXPECT_EQ(parsed.options.drain, std::chrono::seconds(2));
    EXPECT_EQ(parsed.options.webhook_port, 1);
  }
}

TEST(CommandLine, HelpIsNoErrorAndNonsenseIs) {
  EXPECT_TRUE(parse({"--help"}).exit);
  EXPECT_EQ(parse({"--help"}).exit_code, 0);
  EXPECT_EQ(parse({"--version"}).exit_code, 0);
  EXPECT_EQ(parse({"--nonsense"}).exit_code, 2);
  EXPECT_EQ(parse({}).exit_code, 2) << "the namespace is missing";
  EXPECT_EQ(parse({"--namespace", "x", "--drain", "soon"}).exit_code, 2);
}

}  // namespace
}  // namespace compilecache::controller
