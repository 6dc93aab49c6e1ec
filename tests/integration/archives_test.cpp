// Commands of kubectl compilecache on archives, with a real API server and a real registry.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>

#include "archive/write/write.hpp"
#include "store/registry/registry_store.hpp"
#include "store/signatures.hpp"
#include "store/trust/trusted_keys.hpp"
#include "store/upkeep.hpp"
#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/unit/archive/archive_fixture.hpp"
#include "tests/unit/store/trust_keys.hpp"

namespace compilecache::testing {
namespace {

class Archives : public OperatorTest {
 protected:
  ProcessResult plugin(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), testing::in_build("cli/kubectl-compilecache"));
    arguments.insert(arguments.end(), {"-n", ns});
    return run_process(arguments);
  }
  std::future<ProcessResult> plugin_meanwhile(std::vector<std::string> arguments) const {
    return std::async(std::launch::async, [this, arguments] { return plugin(arguments); });
  }
  // The name of the archive that a pod of `cache` has saved.
  std::string save(const std::string& cache, const std::string& what = "one") const {
    const std::string pod = run_pod("pod-" + cache, cache);
    EXPECT_EQ(process->call("POST", "/v1/load", pod, {{"cache", cache}}).first, 200);
    const json saved = commit(pod, granted(pod, cache, "a1"), what).second;
    EXPECT_TRUE(saved.contains("manifest_digest")) << saved;
    return at(archives(), "/0/metadata/name");
  }
  // The Job that prepares the store of that CompileCache, and the one that copies into it.
  void play_copy(const std::string& cache, const std::string& error) const {
    sweep(cache);
    json job;
    ASSERT_TRUE(eventually(seconds(30), [&] {
      for (const json& one : jobs(cache)) {
        if (!at(one, "/status/succeeded").is_number()) job = one;
      }
      return job.is_object();
    })) << process->log();
    const std::string token = pod_token(ns, make_sweep_pod(job));
    const auto say = [&](json message) {
      message["cache"] = cache;
      const auto [status, answer] = process->call("POST", "/v1/sweeps", token, message);
      EXPECT_EQ(status, 200) << answer;
    };
    say({{"phase", "begin"}});
    say({{"phase", "copy"},
         {"copied_from", "claim caches, llama"},
         {"copied_archives", error.empty() ? 1 : 0},
         {"copy_error", error}});
    say({{"phase", "end"}, {"listed", true}});
    complete(job);
  }
  json archives() const { return read_list({"compilecachearchives", "-n", ns}); }
  // The plugin's Jobs, without those that go.
  std::vector<json> tools() const {
    std::vector<json> found;
    for (const json& job :
         read_list({"jobs", "-n", ns, "-l", "app.kubernetes.io/name=compilecache-tool"})) {
      if (!at(job, "/metadata/deletionTimestamp").is_string()) found.push_back(job);
    }
    return found;
  }

  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(Archives, AreListedAndDeletedOnlyAfterAYes) {
  make_ready_cache("llama");
  EXPECT_TRUE(contains(plugin({"archives"}).err, "There is no archive yet"));
  const std::string name = save("llama");

  const ProcessResult listed = plugin({"archives", "llama"});
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  for (const std::string& told : {name, std::string("NVIDIA-H100-80GB-HBM3"),
                                  std::string("example.com/app:1"), std::string("1000")}) {
    EXPECT_TRUE(contains(listed.out, told)) << told << " is missing in\n" << listed.out;
  }
  const json told = json::parse(plugin({"archives", "-o", "json"}).out);
  EXPECT_EQ(at(told, "/0/digest"), digest("manifest one"));
  EXPECT_TRUE(contains(plugin({"archives", "-o", "yaml"}).out, "name: " + name));
  EXPECT_EQ(plugin({"archives", "nobody"}).exit_code, 1);

  EXPECT_TRUE(contains(plugin({"delete", name, "--yes"}).err, "name the CompileCache of"));
  EXPECT_TRUE(contains(plugin({"delete", "qwen/" + name, "--yes"}).err, "not of \"qwen\""));
  const ProcessResult unasked = plugin({"delete", "llama/" + name});
  EXPECT_EQ(unasked.exit_code, 1);
  EXPECT_TRUE(contains(unasked.err, "say --yes")) << unasked.err;
  EXPECT_EQ(archives().size(), 1u);
  const ProcessResult deleted = plugin({"delete", "llama/" + name, "-y"});
  EXPECT_EQ(deleted.exit_code, 0) << deleted.err;
  EXPECT_TRUE(archives().empty());
}

TEST_F(Archives, AStatusThatIsWatchedIsToldAgainWhenItHasChanged) {
  make_ready_cache("llama");
  const archive::test::TempDir folder;
  const std::string told = folder.path("told"), pid = folder.path("pid");
  auto watching = std::async(std::launch::async, [&] {
    return run_process({"/bin/sh", "-c",
                        "echo $$ >" + pid + "; exec " +
                            testing::in_build("cli/kubectl-compilecache") +
                            " status llama -w -o yaml -n " + ns + " >" + told});
  });
  const auto says = [&](const std::string& text) {
    return eventually(seconds(60), [&] {
      return std::filesystem::exists(told) && contains(archive::test::read_file(told), text);
    });
  };
  EXPECT_TRUE(says("archives: []"));
  save("llama");
  EXPECT_TRUE(says("gpuProduct: NVIDIA-H100-80GB-HBM3"));
  ::kill(std::stoi(archive::test::read_file(pid)), SIGTERM);
  watching.wait();
  const std::string out = archive::test::read_file(told);
  EXPECT_TRUE(contains(out, "\n---\n")) << out;
}

TEST_F(Archives, ACopyIsAskedForOfTheOperatorAndItsEndIsSaid) {
  make_ready_cache("llama", {{"version", "7"}});
  auto copying = plugin_meanwhile(
      {"copy", "llama", "--to", "llama-2", "--to-claim", "caches", "--sub-path", "new"});
  play_copy("llama-2", "");
  const ProcessResult copied = copying.get();
  EXPECT_EQ(copied.exit_code, 0) << copied.err << status("llama-2") << process->log();
  EXPECT_TRUE(contains(copied.out, "compilecache.dev/cache: llama-2")) << copied.out;
  const json made = read({"compilecache", "llama-2", "-n", ns});
  EXPECT_EQ(at(made, "/spec/version"), "7");
  EXPECT_EQ(at(made, "/spec/storage/copyFrom/claimName"), "caches");
  EXPECT_EQ(at(made, "/spec/storage/subPath"), "new");

  copying = plugin_meanwhile(
      {"copy", "llama", "--to", "llama-3", "--to-claim", "caches", "--sub-path", "newer"});
  play_copy("llama-3", "the disk is full");
  const ProcessResult failed = copying.get();
  EXPECT_EQ(failed.exit_code, 1) << failed.out;
  EXPECT_TRUE(contains(failed.err, "the disk is full")) << failed.err;

  EXPECT_EQ(plugin({"copy", "llama", "--to", "llama"}).exit_code, 1);
  EXPECT_TRUE(contains(plugin({"copy", "llama", "--to", "llama-2", "--to-claim", "caches"}).err,
                       "there already"));
}

TEST_F(Archives, OfAVolumeAreReadByAJobThatIsGoneAfterwards) {
  make_ready_cache("llama");
  save("llama");
  auto verifying = plugin_meanwhile({"verify", "llama", "--timeout", "100s"});
  json job;
  ASSERT_TRUE(eventually(seconds(60), [&] {
    for (const json& one : tools()) job = one;
    return job.is_object();
  }));
  EXPECT_EQ(at(job, "/spec/template/spec/containers/0/args/3"), digest("manifest one"));
  json pod = job.at("spec").at("template");
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"]["name"] = "tool-pod";
  pod["metadata"]["namespace"] = ns;
  pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = at(job, "/metadata/name");
  ASSERT_EQ(apply(pod), "");
  patch_status(
      "pod", "tool-pod",
      {{"phase", "Failed"}, {"reason", "Evicted"}, {"message", "the node is low on memory"}});
  const ProcessResult verified = verifying.get();
  EXPECT_EQ(verified.exit_code, 1) << "nothing is whole that was not read";
  EXPECT_TRUE(contains(verified.err, "Evicted: the node is low on memory")) << verified.err;
  EXPECT_TRUE(eventually(seconds(10), [&] { return tools().empty(); }));
}

TEST_F(Archives, AJobIsGoneAfterCtrlCToo) {
  make_ready_cache("llama");
  save("llama");
  const archive::test::TempDir folder;
  const std::string pid = folder.path("pid");
  auto verifying = std::async(std::launch::async, [&] {
    return run_process({"/bin/sh", "-c",
                        "echo $$ >" + pid + "; exec " +
                            testing::in_build("cli/kubectl-compilecache") +
                            " verify llama --timeout 100s -n " + ns});
  });
  ASSERT_TRUE(eventually(seconds(60), [&] { return !tools().empty(); }));
  ::kill(std::stoi(archive::test::read_file(pid)), SIGINT);
  const ProcessResult ended = verifying.get();
  EXPECT_EQ(ended.exit_code, 128 + SIGINT) << ended.err;
  EXPECT_TRUE(tools().empty());
}

// With Debian's registry as the user's.
class ArchivesInARegistry : public Archives {
 protected:
  void SetUp() override {
    if (const auto missing = missing_registry(RegistryKind::kDebian); !missing.empty())
      GTEST_SKIP() << missing;
    registry_ = std::make_unique<RegistryProcess>(RegistryKind::kDebian, folder_.path("registry"));
    ASSERT_EQ(registry_->problem(), "");
    Archives::SetUp();
  }
  void TearDown() override {
    if (registry_) Archives::TearDown();
  }
  [[nodiscard]] std::string repository() const { return registry_->host() + "/ml/caches"; }
  [[nodiscard]] store::RegistryStore store_of(const std::string& cache) const {
    return store::RegistryStore({.host = registry_->host(),
                                 .repository = "ml/caches/" + ns + "/" + cache,
                                 .plain_http = true,
                                 .spool_folder = folder_.path()});
  }

  static bool is_signed(store::Store& store, const std::string& digest) {
    const auto found = store.signatures()->of(digest);
    EXPECT_FALSE(found.unread) << found.unread->message;
    const auto keys = store::TrustedKeys::parse({store::test::ours().public_key});
    return keys && keys->vouch_for(digest, found.all);
  }

  archive::test::TempDir folder_;
  std::unique_ptr<RegistryProcess> registry_;
};

TEST_F(ArchivesInARegistry, AreVerifiedExportedAndImported) {
  ASSERT_EQ(make_cache("llama",
                       {{"storage",
                         {{"claimName", nullptr}, {"registry", {{"repository", repository()}}}}}}),
            "");
  sweep("llama");
  ASSERT_TRUE(becomes("llama", "Ready", "True")) << status("llama") << process->log();
  auto store = store_of("llama");
  archive::test::write_file(folder_.path("kernel"), archive::test::noise(50'000, 1));
  archive::WriteRequest request;
  request.annotations = {{archive::kAnnotationName, "llama-1"},
                         {archive::kAnnotationGeneration, "1"}};
  request.files.push_back({folder_.path("kernel"), "torch/kernel"});
  const auto written = archive::write_archive(store, request);
  ASSERT_TRUE(written) << written.error().message;
  const std::string whole = written->archive.manifest;

  const std::string pod = run_pod("pod", "llama");
  ASSERT_EQ(process->call("POST", "/v1/load", pod, {{"cache", "llama"}}).first, 200);
  const json save = granted(pod, "llama", "a1");
  ASSERT_EQ(process
                ->call("POST", "/v1/saves/" + save.at("id").get<std::string>() + "/commit", pod,
                       {{"fence", save.at("fence")},
                        {"manifest_digest", whole},
                        {"blobs", {whole}},
                        {"compressed_bytes", 1000},
                        {"files", 1},
                        {"layers", 1}})
                .first,
            200);
  const std::string name = at(archives(), "/0/metadata/name");

  const ProcessResult verified = plugin({"verify", "llama"});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_TRUE(contains(verified.out, "whole    llama/" + name + " " + whole)) << verified.out;

  const std::string key = folder_.path("key");
  std::ofstream(key) << store::test::ours().key;
  const ProcessResult signed_now = plugin({"sign", "llama/" + name, "--key", key});
  EXPECT_EQ(signed_now.exit_code, 0) << signed_now.err;
  EXPECT_TRUE(contains(signed_now.out, whole)) << signed_now.out;
  EXPECT_TRUE(is_signed(store, whole));
  std::ofstream(key) << "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n";
  const ProcessResult asked = plugin({"sign", "llama/" + name, "--key", key});
  EXPECT_EQ(asked.exit_code, 1);
  EXPECT_TRUE(contains(asked.err, "cosign sign --key " + key)) << asked.err;
  EXPECT_EQ(plugin({"sign", "llama/nobody", "--key", key}).exit_code, 1);

  const std::string file = folder_.path("llama.tar");
  const ProcessResult exported = plugin({"export", "llama/" + name, "-f", file});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_TRUE(contains(exported.out, whole));
  EXPECT_EQ(plugin({"export", "llama/" + name, "-f", file}).exit_code, 1) << "it is there already";

  EXPECT_EQ(plugin({"import", file, "--to", "llama", "--key", key}).exit_code, 1);
  std::ofstream(key) << store::test::ours().key;
  // Nobody plays the Job that copies, so that it is not there in time.
  const ProcessResult imported =
      plugin({"import", file, "--to", "llama", "--key", key, "--timeout", "1s"});
  EXPECT_EQ(imported.exit_code, 1);
  EXPECT_TRUE(contains(imported.err, "the operator goes on")) << imported.err;
  const json from = at(read({"compilecache", "llama", "-n", ns}), "/spec/storage/copyFrom");
  EXPECT_EQ(at(from, "/registry/repository"), repository());
  auto inbox = store_of(at(from, "/cache").get<std::string>());
  const auto pushed = inbox.upkeep()->archives();
  ASSERT_TRUE(pushed) << pushed.error().message;
  ASSERT_EQ(pushed->entries.size(), 1u);
  EXPECT_EQ(pushed->entries.front().digest, whole) << "digests stay the same";
  EXPECT_TRUE(is_signed(inbox, whole));

  ASSERT_TRUE(store.upkeep()->remove({whole}));
  const ProcessResult lost = plugin({"verify", "llama", "-o", "json"});
  EXPECT_EQ(lost.exit_code, 1) << lost.out << lost.err;
  EXPECT_EQ(at(json::parse(lost.out), "/0/whole"), false);
}

}  // namespace
}  // namespace compilecache::testing
