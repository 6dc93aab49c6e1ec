// `kubectl compilecache status` on what a real API server has.

#include "api/conditions.hpp"
#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::testing {
namespace {

class Status : public OperatorTest {
 protected:
  static ProcessResult tell(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {testing::in_build("cli/kubectl-compilecache"), "status"});
    return run_process(arguments);
  }
};

TEST_F(Status, AnArchiveIsToldAndWhoseStorageIsMissing) {
  make_ready_cache("llama");
  const std::string pod = run_pod("first", "llama");
  ASSERT_EQ(process->call("POST", "/v1/load", pod, {{"cache", "llama"}}).first, 200);
  ASSERT_TRUE(commit(pod, granted(pod, "llama", "a1"), "one").second.contains("manifest_digest"));
  ASSERT_EQ(make_cache("qwen", {{"storage", {{"claimName", "nowhere"}}}}), "");
  ASSERT_TRUE(becomes("qwen", api::kReadyCondition, "False"));
  ASSERT_TRUE(eventually(seconds(15), [&] { return status("llama").value("archives", 0) == 1; }));

  const ProcessResult all = tell({"-n", ns});
  ASSERT_EQ(all.exit_code, 0) << all.err;
  for (const char* told : {"/llama, ready", "NVIDIA-H100-80GB-HBM3", "/qwen, not ready",
                           "wrong     StorageReady", "nowhere"}) {
    EXPECT_NE(all.out.find(told), std::string::npos) << told << " is missing in\n" << all.out;
  }
  const ProcessResult one = tell({"llama", "-n", ns, "-o", "json"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const json llama = json::parse(one.out);
  EXPECT_EQ(llama["name"], "llama");
  ASSERT_EQ(llama["archives"].size(), 1u) << llama;
  EXPECT_EQ(llama["archives"][0]["generation"], 1);
  const ProcessResult everywhere = tell({"-A", "-o", "json"});
  EXPECT_GE(json::parse(everywhere.out).size(), 2u) << everywhere.err;

  const ProcessResult missing = tell({"nobody", "-n", ns});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(
      missing.err.find("Error: CompileCache \"nobody\" not found in namespace \"" + ns + "\"\n"),
      std::string::npos)
      << missing.err;
  const ProcessResult none = tell({"-n", "no-such-namespace"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_NE(none.err.find("There is no CompileCache in the namespace no-such-namespace."),
            std::string::npos)
      << none.err;
  EXPECT_EQ(tell({"llama", "-A"}).exit_code, 2);
}

// kubectl finds kubectl_complete-compilecache on the PATH, beside the plugin.
TEST_F(Status, IsCompletedByKubectl) {
  make_ready_cache("llama");
  const std::string path = in_build("cli") + ":" + std::getenv("PATH");
  const auto complete = [&](std::vector<std::string> words) {
    const char* own = std::getenv("KUBECTL");
    words.insert(words.begin(), {"env", "PATH=" + path, own != nullptr ? own : "kubectl",
                                 "__complete", "compilecache"});
    return run_process(words).out;
  };
  EXPECT_NE(complete({"stat"}).find("status\t"), std::string::npos) << complete({"stat"});
  EXPECT_EQ(complete({"status", "-n", ns, "lla"}), "llama\n:4\n");
}

}  // namespace
}  // namespace compilecache::testing
