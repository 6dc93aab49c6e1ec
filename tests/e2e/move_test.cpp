#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "tests/e2e/sandbox.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::e2e {
namespace {

class Move : public Sandbox {
 protected:
  void SetUp() override {
    Sandbox::SetUp();
    folder_ = volume() + ".files";
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    Sandbox::TearDown();
  }
  // With the cluster's kubectl on the PATH, as for a user of `kubectl compilecache`.
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> arguments) const {
    const std::string kubectl = file("kubectl");
    if (!std::filesystem::exists(kubectl))
      std::filesystem::create_symlink(std::getenv("KUBECTL"), kubectl);
    const std::vector<std::string> start{"env", "PATH=" + folder_ + ":" + std::getenv("PATH"),
                                         testing::in_build("cli/kubectl-compilecache")};
    arguments.insert(arguments.begin(), start.begin(), start.end());
    arguments.insert(arguments.end(), {"-n", ns()});
    return arguments;
  }
  [[nodiscard]] testing::ProcessResult plugin(const std::vector<std::string>& arguments) const {
    return testing::run_process(command(arguments), "", seconds(240));
  }
  [[nodiscard]] json archive_of(const std::string& name) const {
    for (const json& archive : archives()) {
      if (at(archive, "/spec/cache") == name) return archive;
    }
    return json::object();
  }
  // The namespace's Jobs of the plugin, without those that are being deleted.
  [[nodiscard]] json tools() const {
    json found = json::array();
    for (const json& job : get_json(
             {"jobs", "-n", ns(), "-l", "app.kubernetes.io/name=compilecache-tool"})["items"]) {
      if (!at(job, "/metadata/deletionTimestamp").is_string()) found.push_back(job);
    }
    return found;
  }

  // Folders in the store of "new" through which files come.
  [[nodiscard]] std::set<std::string> inboxes() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(volume() + "/new")) {
      if (entry.path().filename().string().starts_with("import-")) found.insert(entry.path());
    }
    return found;
  }
  void expect_nothing_left() const {
    EXPECT_EQ(tools(), json::array());
    EXPECT_EQ(inboxes(), std::set<std::string>());
  }
  // Ctrl-C, once the file is on its way; the exit status.
  [[nodiscard]] int interrupted(const std::vector<std::string>& arguments) const {
    const std::string pid = file("pid");
    std::vector<std::string> line = command(arguments);
    line.insert(line.begin(), {"sh", "-c", "echo $$ >" + pid + "; exec \"$@\"", "sh"});
    auto importing = std::async(std::launch::async,
                                [&] { return testing::run_process(line, "", seconds(240)); });
    EXPECT_TRUE(eventually(seconds(120), [&] { return !inboxes().empty(); }));
    pid_t process = 0;
    std::ifstream(pid) >> process;
    ::kill(process, SIGINT);
    return importing.get().exit_code;
  }

  // Beside the volume, where no pod gets.
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

// docs/how-to/storage/move.md, from a claim into the installation's own registry.
TEST_F(Move, ArchivesGoAlongFromAVolumeToTheRegistry) {
  create_cache("old", on_the_claim());
  wait_until_ready("old");
  run_to_ready({"cold", {}, "old"});
  wait_for_save();
  remove_pod("cold");
  const json saved = archive_of("old");

  const auto verified = plugin({"verify", "old"});  // by a Job that mounts the claim
  EXPECT_EQ(verified.exit_code, 0) << verified.err << verified.out;
  EXPECT_NE(verified.out.find("whole    old/"), std::string::npos) << verified.out;

  const auto copied = plugin({"copy", "old", "--to", "new", "--timeout", "180s"});
  ASSERT_EQ(copied.exit_code, 0) << copied.err << cache("new");
  EXPECT_EQ(at(archive_of("new"), "/status/head/manifestDigest"),
            at(saved, "/status/head/manifestDigest"));
  EXPECT_EQ(at(run_to_ready({"warm", {}, "new"}), "/misses"), 0)
      << logs("warm", "compilecache-load");
  EXPECT_EQ(at(archive_of("old"), "/status/head"), at(saved, "/status/head")) << "it is left alone";
}

// The same by a file, from a volume and into a volume.
TEST_F(Move, AnArchiveGoesByAFileFromAVolumeToAnother) {
  create_cache("old", on_the_claim());
  create_cache("new", on_the_claim());
  wait_until_ready("old");
  wait_until_ready("new");
  run_to_ready({"cold", {}, "old"});
  wait_for_save();
  remove_pod("cold");
  const std::string name = at(archive_of("old"), "/metadata/name"), tar = file("old.tar");
  const std::string digest = at(archive_of("old"), "/status/head/manifestDigest");

  const auto exported = plugin({"export", "old/" + name, "-f", tar});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_NE(exported.out.find(digest), std::string::npos) << exported.out;
  EXPECT_EQ(plugin({"export", "old/" + name, "-f", tar}).exit_code, 1) << "it is there already";
  const auto image = plugin({"export", "old/" + name, "-f", file("image.tar"), "--as-image"});
  EXPECT_EQ(image.exit_code, 0) << image.err;

  const auto signed_too = plugin({"import", tar, "--to", "new", "--key", tar});
  EXPECT_EQ(signed_too.exit_code, 1);
  // Rejected archives leave nothing.
  const auto trust = [&](const json& keys) {
    const json patch{{"spec", {{"trust", {{"publicKeys", keys}}}}}};
    EXPECT_EQ(
        kubectl({"patch", "cc", "new", "-n", ns(), "--type=merge", "-p", patch.dump()}).exit_code,
        0);
  };
  trust({"no key"});
  const auto refused = plugin({"import", tar, "--to", "new", "--timeout", "180s"});
  EXPECT_EQ(refused.exit_code, 1) << refused.out;
  EXPECT_NE(refused.err.find("spec.trust.publicKeys[0]"), std::string::npos) << refused.err;
  EXPECT_EQ(at(cache("new"), "/spec/storage/copyFrom"), json());
  trust(nullptr);
  expect_nothing_left();
  EXPECT_EQ(interrupted({"import", tar, "--to", "new", "--timeout", "180s"}), 128 + SIGINT);
  // Its Job clears the folder as it ends.
  EXPECT_TRUE(eventually(seconds(90), [&] { return inboxes().empty(); }));
  expect_nothing_left();
  EXPECT_EQ(at(cache("new"), "/spec/storage/copyFrom"), json());
  const auto imported = plugin({"import", tar, "--to", "new", "--timeout", "180s"});
  ASSERT_EQ(imported.exit_code, 0) << imported.err << cache("new");
  EXPECT_EQ(at(archive_of("new"), "/status/head/manifestDigest"), digest);
  EXPECT_EQ(at(run_to_ready({"warm", {}, "new"}), "/misses"), 0)
      << logs("warm", "compilecache-load");
  expect_nothing_left();
}

}  // namespace
}  // namespace compilecache::e2e
