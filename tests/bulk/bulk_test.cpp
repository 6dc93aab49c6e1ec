#include "tests/bulk/bulk.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/settings/injection_settings.hpp"
#include "tests/support/paths.hpp"

// The bulk tool on the examples and on a few manifests of its own.

namespace compilecache::testing {
namespace {

class Bulk : public ::testing::Test {
 protected:
  BulkResult run(const std::string& image) {
    const auto settings = controller::load_settings(testing::in_tree("config/settings.yaml"));
    EXPECT_TRUE(settings) << settings.error().message;
    const DryRun dry_run(kube::Client(*kube::make_transport(*kube::load_config({}))));
    std::ostringstream lines;
    const auto result = run_bulk(
        {testing::in_tree("examples"), testing::in_tree("tests/bulk/manifests")},
        controller::injection_settings(*settings, "compilecache-system", image), dry_run, lines);
    EXPECT_TRUE(result) << result.error().message;
    lines_ = lines.str();
    return result.value_or(BulkResult());
  }
  std::string lines_;
};

TEST_F(Bulk, NoTemplateIsWorseOff) {
  const BulkResult result = run("compilecache:1");
  EXPECT_GE(result.templates, 10) << lines_;
  EXPECT_EQ(result.unreadable, 1) << lines_;  // chart.yaml
  EXPECT_GE(result.reasons.at("injected"), 8) << lines_;
  EXPECT_GE(result.reasons.at("no_pod_template"), 1) << lines_;
  EXPECT_GT(result.accepted_before, 0);
  EXPECT_EQ(result.accepted_after, result.accepted_before) << lines_;
  EXPECT_TRUE(result.good()) << lines_;
}

// With an image that the API server cannot take, every template that is injected is refused.
TEST_F(Bulk, HarmIsNoticed) {
  const BulkResult result = run("");
  EXPECT_GT(result.worse, 8) << lines_;
  EXPECT_EQ(result.accepted_after, result.accepted_before - result.worse) << lines_;
  EXPECT_FALSE(result.good());
}

}  // namespace
}  // namespace compilecache::testing
