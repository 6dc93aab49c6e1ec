// `kubectl compilecache doctor` on a real API server: what it says of the webhook.

#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::testing {
namespace {

class Doctor : public ReviewedPods {
 protected:
  ProcessResult doctor() const {
    return run_process(
        {testing::in_build("cli/kubectl-compilecache"), "doctor", "-n", ns, "-o", "json"});
  }
  static bool has(const ProcessResult& result, const std::string& level, const std::string& text) {
    const json found = json::parse(result.out, nullptr, false);
    if (!found.is_object()) return false;
    for (const json& finding : found["findings"]) {
      if (finding["level"] == level && finding["text"] == text) return true;
    }
    return false;
  }
  // In time: the API server takes a moment to see a configuration.
  bool says(const std::string& level, const std::string& text) const {
    return eventually(seconds(30), [&] { return has(doctor(), level, text); });
  }
};

TEST_F(Doctor, TriesAPodOfTheNamespaceWithAndWithoutACompileCache) {
  send_pods_to_the_webhook();
  EXPECT_TRUE(says("ok", "the webhook answers (dry run); no CompileCache in " + ns + " is Ready"))
      << doctor().out;
  make_ready_cache("transformer");
  EXPECT_TRUE(says("ok", "an annotated pod in " + ns + " is injected (dry run)")) << doctor().out;
  EXPECT_TRUE(read_list({"pods", "-n", ns, "-l", "!compilecache.dev/sweep"}).empty())
      << "a dry run creates none";
}

TEST_F(Doctor, FailsWhereTheWebhookIsNotReached) {
  send_pods_to_the_webhook();
  make_ready_cache("transformer");
  ASSERT_TRUE(says("ok", "an annotated pod in " + ns + " is injected (dry run)")) << doctor().out;
  process->end();
  const ProcessResult result = doctor();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(has(result, "fail", "an annotated pod in " + ns + " is not injected (dry run)"))
      << result.out << result.err;
  process->start_again();
  ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }));
}

}  // namespace
}  // namespace compilecache::testing
