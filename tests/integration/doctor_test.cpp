// `kubectl compilecache doctor` on a real API server: what it says of the webhook.

#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::testing {
namespace {

class Doctor : public ReviewedPods {
 protected:
  ProcessResult doctor() const {
    return run_process({testing::in_build("cli/kubectl-compilecache"), "doctor", "-n", ns});
  }
  // Whether a line of its output is to be seen in time: the API server takes a moment to see a
  // configuration.
  bool says(const std::string& line) const {
    return eventually(seconds(30), [&] { return doctor().out.find(line) != std::string::npos; });
  }
};

TEST_F(Doctor, TriesAPodOfTheNamespaceWithAndWithoutACompileCache) {
  send_pods_to_the_webhook();
  EXPECT_TRUE(says("ok    injection     the webhook answers (dry run); no CompileCache in " + ns +
                   " is Ready\n"))
      << doctor().out;
  make_ready_cache("transformer");
  EXPECT_TRUE(says("ok    injection     an annotated pod in " + ns + " is injected (dry run)\n"))
      << doctor().out;
  EXPECT_TRUE(read_list({"pods", "-n", ns, "-l", "!compilecache.dev/sweep"}).empty())
      << "a dry run creates none";
}

TEST_F(Doctor, FailsWhereTheWebhookIsNotReached) {
  send_pods_to_the_webhook();
  make_ready_cache("transformer");
  ASSERT_TRUE(says("is injected (dry run)")) << doctor().out;
  process->end();
  const ProcessResult result = doctor();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("FAIL  injection     an annotated pod in " + ns +
                            " is not injected (dry run); "),
            std::string::npos)
      << result.out << result.err;
  process->start_again();
  ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }));
}

}  // namespace
}  // namespace compilecache::testing
