#include "tests/e2e/sandbox.hpp"
#include "tests/support/paths.hpp"

// Applications by the files of examples/: they ask for a save and read its
// result.

namespace compilecache::e2e {
namespace {

const std::string kAskInPython = testing::in_tree("examples/ask-for-a-save/ask_for_a_save.py");
const std::string kAskInShell = testing::in_tree("examples/ask-for-a-save/ask_for_a_save.sh");
constexpr char kGo[] = "/tmp/go";

class Control : public Sandbox {
 protected:
  // Nothing is saved by silence.
  void create_patient_cache(const std::string& name, json spec = json::object()) {
    spec["save"]["quietPeriod"] = "1h";
    create_cache(name, spec);
  }
  void start_with_examples(const TorchPod& pod) {
    json object = manifest(pod);
    mount_files(object, "examples");
    ASSERT_EQ(testing::apply(object), "");
  }
  [[nodiscard]] json ask(const std::string& pod, const std::vector<std::string>& command) const {
    const std::string answer = exec(pod, command);
    const json result = json::parse(answer, nullptr, false);
    EXPECT_TRUE(result.is_object()) << answer;
    return result;
  }
  void wait_until_running(const std::string& name) {
    ASSERT_TRUE(eventually(
        seconds(60), [&] { return at(pod(name), "/status/containerStatuses/0/ready") == true; }));
  }
};

TEST_F(Control, AnApplicationAsksForASaveAndReadsWhatBecameOfIt) {
  create_patient_cache("transformer");
  create_patient_cache("tiny", {{"save", {{"maxArchiveSize", 100}}}});
  create_files("examples", {kAskInPython, kAskInShell});
  wait_until_ready("transformer");
  wait_until_ready("tiny");
  start_with_examples({"asks", {"--layers", "0", "--wait-for", kGo}});
  start_with_examples({"too-much", {"--wait-for", kGo}, "tiny"});
  start_with_examples(
      {"reads", {"--wait-for", kGo}, "transformer", {{"compilecache.dev/mode", "ReadOnly"}}});
  start_with_examples({"plain", {"--wait-for", kGo}, ""});
  for (const char* name : {"asks", "too-much", "reads", "plain"}) wait_until_running(name);
  const std::vector<std::string> python{"python3", "/examples/ask_for_a_save.py"};
  const std::vector<std::string> shell{"sh", "/examples/ask_for_a_save.sh"};

  const json nothing = ask("asks", python);
  EXPECT_EQ(at(nothing, "/outcome"), "DOES_NOT_EXIST");
  EXPECT_EQ(at(nothing, "/reason"), "nothing_to_save");

  exec("asks", {"touch", kGo});
  const json compiled = wait_for_result("asks");
  EXPECT_EQ(at(compiled, "/misses"), 1);
  EXPECT_TRUE(archives().empty() || !at(archives().front(), "/status/head").is_object());
  const json saved = ask("asks", python);
  EXPECT_EQ(at(saved, "/outcome"), "SUCCESS") << saved;
  const json archive = wait_for_save();
  EXPECT_EQ(at(archive, "/status/head/manifestDigest"), at(saved, "/manifestDigest"));
  const json again = ask("asks", shell);
  EXPECT_EQ(at(again, "/outcome"), "SKIPPED") << again;
  EXPECT_EQ(at(again, "/reason"), "unchanged");

  const json off = ask("reads", shell);
  EXPECT_EQ(at(off, "/outcome"), "SKIPPED");
  EXPECT_EQ(at(off, "/reason"), "saving_is_off");

  exec("too-much", {"sh", "-c", "head -c 9999 /dev/urandom >$TORCHINDUCTOR_CACHE_DIR/kernel"});
  const json refused = ask("too-much", python);
  EXPECT_EQ(at(refused, "/outcome"), "SKIPPED") << refused;
  EXPECT_EQ(at(refused, "/reason"), "file_too_large");
  EXPECT_NE(refused.value("message", "").find("maxArchiveSize"), std::string::npos) << refused;

  // The same program where there is no cache does no harm.
  EXPECT_EQ(exec("plain", python), "no cache\n");
  EXPECT_EQ(exec("plain", shell), "no cache\n");
}

// The manifest as it is, but for the image, a server that stands for vLLM, and the GPU.
TEST_F(Control, AVllmServerIsSavedWhenItIsHealthy) {
  const auto example = [&](const std::string& file) {
    const auto read = kubectl({"create", "--dry-run=client", "-o", "json", "-n", ns(), "-f", file});
    EXPECT_EQ(read.exit_code, 0) << read.err;
    return json::parse(read.out, nullptr, false);
  };
  json cache = example(testing::in_tree("examples/vllm/compilecache.yaml"));
  json deployment = example(testing::in_tree("examples/vllm/deployment.yaml"));
  cache["spec"]["storage"] = place().storage();
  ASSERT_EQ(testing::apply(cache), "");
  wait_until_ready("vllm");

  json& pod = deployment["spec"]["template"];
  json& container = pod["spec"]["containers"][0];
  container["image"] = at(manifest({"any"}), "/spec/containers/0/image");
  container["command"] = {"python3", "/server/vllm_server.py"};
  container.erase("resources");
  create_files("server", {testing::in_tree("tests/e2e/vllm_server.py"),
                          testing::in_tree("tests/e2e/torch_app.py")});
  mount_files(pod, "server");
  ASSERT_EQ(testing::apply(deployment), "");

  const json archive = wait_for_save(1, "", seconds(180));
  int kernels = 0;
  for (const std::string& file : archived_files(archive)) {
    EXPECT_TRUE(file.starts_with("vllm/torch_compile_cache/")) << file;
    if (file.ends_with(".so")) ++kernels;
  }
  EXPECT_GE(kernels, 1);
  EXPECT_TRUE(eventually(seconds(60), [&] {
    return at(get_json({"deployment", "vllm", "-n", ns()}), "/status/readyReplicas") == 1;
  })) << "the server does not get ready";
}

}  // namespace
}  // namespace compilecache::e2e
