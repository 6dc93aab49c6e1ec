#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"

// --authorize-metrics, with the rights of config/components/metrics-access, on a real API server.

namespace compilecache::testing {
namespace {

const std::string kRights = testing::in_tree("config/components/metrics-access/rbac.yaml");

class MetricsAccess : public OperatorTest {
 protected:
  // A service account of this namespace, and a token of it.
  [[nodiscard]] std::string account(const std::string& name) const {
    EXPECT_EQ(kubectl({"create", "serviceaccount", name, "-n", ns}).exit_code, 0);
    const ProcessResult token = kubectl({"create", "token", name, "-n", ns});
    EXPECT_EQ(token.exit_code, 0) << token.err;
    return token.out.substr(0, token.out.find('\n'));
  }
};

TEST_F(MetricsAccess, OnlyWhoMayReadTheMetricsReadsThemOnAnyReplica) {
  ASSERT_EQ(kubectl({"apply", "-f", kRights}).exit_code, 0);
  const std::string reader = account("prometheus");
  const std::string other = account("other");
  const auto bound =
      kubectl({"create", "clusterrolebinding", ns, "--clusterrole=compilecache-metrics-reader",
               "--serviceaccount=" + ns + ":prometheus"});
  ASSERT_EQ(bound.exit_code, 0) << bound.err;

  OperatorProcess replica(kSettings, {.more_arguments = {"--authorize-metrics"}});
  ASSERT_TRUE(eventually(seconds(60), [&] { return replica.ready(); })) << replica.log();
  EXPECT_TRUE(eventually(seconds(20), [&] { return replica.scrape(reader).first == 200; }))
      << replica.scrape(reader).second << replica.log();
  EXPECT_NE(replica.scrape(reader).second.find("compilecache_build_info"), std::string::npos);
  EXPECT_EQ(replica.scrape(other).first, 403);
  EXPECT_EQ(replica.scrape("no-token").first, 401);
  EXPECT_EQ(replica.scrape("").first, 401);
  const auto [status, body] = replica.get("/metrics");
  EXPECT_EQ(status, 403);
  EXPECT_EQ(body.find("compilecache_"), std::string::npos);
  EXPECT_EQ(replica.get("/healthz").first, 200);
  EXPECT_EQ(replica.end(), 0);
  kubectl({"delete", "clusterrolebinding", ns});
  kubectl({"delete", "-f", kRights});
}

}  // namespace
}  // namespace compilecache::testing
