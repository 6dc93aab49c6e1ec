#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive/fs.hpp"
#include "malicious_fixture.hpp"

// A load gives up at any time when its checkpoint says so, and needs few descriptors and little
// memory.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

class Budget : public MaliciousTest {
 protected:
  // Loads until `enough` returns true for the destination, and gives up then.
  Result<ExtractReport> load_until(const std::string& manifest,
                                   const std::function<bool(const std::string& into)>& enough) {
    ExtractOptions options;
    const std::string into = temp_.path("into");
    options.roots = {{"torch", into}};
    options.checkpoint = [=](const Progress&) { return !enough(into); };
    return extract(store_, manifest, options);
  }
  // The number of files that a load makes if it gives up at the first copy of this content.
  size_t made_of_copies(const std::string& content, int copies);
};

// Files with these names and one content, which one layer has.
std::vector<FileEntry> copies_of(const FileEntry& first, const std::vector<std::string>& paths) {
  std::vector<FileEntry> files{first};
  for (const std::string& path : paths) {
    files.push_back(first);
    files.back().path = path;
    files.back().from = first.path;
  }
  return files;
}

size_t Budget::made_of_copies(const std::string& content, int copies) {
  std::vector<std::string> paths;
  for (int i = 0; i < copies; ++i) paths.push_back("torch/copy-" + std::to_string(10'000 + i));
  const std::string manifest = archive_of(tar_file("torch/a", content) + tar_end(),
                                          copies_of(listed("torch/a", content), paths));
  fs::create_directories(temp_.path("into"));
  const Fd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ::inotify_add_watch(watch.get(), temp_.path("into").c_str(), IN_CREATE);
  const auto loaded = load_until(
      manifest, [](const std::string& into) { return fs::exists(into + "/copy-10000"); });
  EXPECT_FALSE(loaded);
  if (!loaded) {
    EXPECT_EQ(loaded.error().code, ErrorCode::kCancelled) << loaded.error().message;
  }
  EXPECT_TRUE(fs::is_empty(temp_.path("into")));
  size_t made = 0;
  alignas(inotify_event) char events[4096];
  for (ssize_t got = 0; (got = ::read(watch.get(), events, sizeof(events))) > 0;) {
    for (ssize_t at = 0; at < got; ++made)
      at += static_cast<ssize_t>(sizeof(inotify_event)) +
            reinterpret_cast<const inotify_event*>(events + at)->len;
  }
  EXPECT_GT(made, 0U);
  return made;
}

TEST_F(Budget, CopiesOfOneContentAreGivenUpInTheMiddle) {
  EXPECT_LT(made_of_copies(noise(256 << 10, 1), 1500), 1501U) << "the rest was made all the same";
}

TEST_F(Budget, CopiesOfNothingAreGivenUpInTheMiddleToo) {
  EXPECT_LT(made_of_copies("", 12'000), 12'001U) << "the rest was made all the same";
}

TEST_F(Budget, DirectoriesThatAFrameImpliesAreGivenUpInTheMiddle) {
  std::string tar;
  std::vector<FileEntry> files;
  for (int i = 1000; i < 1400; ++i) {
    std::string path = "torch/" + std::to_string(i);
    for (int depth = 0; depth < 25; ++depth) path += "/d";
    files.push_back(listed(path, ""));
    tar += tar_file(path, "");
  }
  const std::string manifest = put_archive(put_layer(tar + tar_end(), 16 << 20), files);
  size_t most = 0;
  const auto loaded = load_until(manifest, [&](const std::string& into) {
    size_t now = 0;
    while (fs::exists(into + "/" + std::to_string(1000 + now))) ++now;
    most = std::max(most, now);
    return now > 0;
  });
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kCancelled) << loaded.error().message;
  EXPECT_EQ(most, 1U) << "asked before each file";
  EXPECT_FALSE(fs::exists(temp_.path("into")));
}

// A process may not have two descriptors for each of very many directories.
TEST_F(Budget, ManyDirectoriesNeedFewDescriptors) {
  const std::string content = "the same in every directory";
  std::vector<std::string> paths;
  std::string tar = tar_file("torch/a", content);
  std::vector<FileEntry> files;
  for (int i = 10'000; i < 13'000; ++i) {
    paths.push_back("torch/copies/" + std::to_string(i) + "/x");
    const std::string own = "torch/own/" + std::to_string(i) + "/x";
    tar += tar_file(own, std::to_string(i));
    files.push_back(listed(own, std::to_string(i)));
  }
  std::vector<FileEntry> all = copies_of(listed("torch/a", content), paths);
  all.insert(all.end(), files.begin(), files.end());
  const std::string manifest = put_archive(put_layer(tar + tar_end(), 16 << 20), all);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{256, 256};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto loaded = try_load(manifest, temp_.path("into"));
    if (!loaded) std::fprintf(stderr, "%s\n", loaded.error().message.c_str());
    ::_exit(loaded ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(temp_.path("into/copies/12999/x")), content);
  EXPECT_EQ(read_file(temp_.path("into/own/12999/x")), "12999");
}

// An archive exactly at a limit is accepted, one above it is not. A writer makes none that a reader
// refuses.
TEST_F(Budget, LimitsOfAnArchiveAreExact) {
  Tree tree{{"a/b/c", {"1234", false}}, {"a/d", {"5", false}}, {"e", {"67", false}}};
  const auto saved = save(tree);
  const auto verified = [&](const Limits& limits) {
    VerifyOptions options;
    options.limits = limits;
    return verify(store_, saved.archive.manifest, options).has_value();
  };
  const auto written = [&](const Limits& limits) {
    WriteRequest request = save_request(tree, "");
    request.settings.limits.max_entries = limits.max_entries;
    request.settings.limits.max_directories = limits.max_directories;
    request.settings.limits.max_path_bytes = limits.max_path_bytes;
    const auto result = write_archive(store_, std::move(request));
    return result && result->left_out.empty();
  };
  // torch, torch/a, torch/a/b; "torch/a/b/c", "torch/a/d" and "torch/e".
  const auto check = [&](uint64_t Limits::*limit, uint64_t least, uint64_t least_to_write) {
    Limits limits;
    limits.*limit = least;
    EXPECT_TRUE(verified(limits)) << least;
    limits.*limit = least - 1;
    EXPECT_FALSE(verified(limits)) << least;
    limits.*limit = least_to_write;
    EXPECT_TRUE(written(limits)) << least_to_write;
    limits.*limit = least_to_write - 1;
    EXPECT_FALSE(written(limits)) << least_to_write;
  };
  check(&Limits::max_entries, 3, 3);
  check(&Limits::max_directories, 3, 3);
  check(&Limits::max_path_bytes, 27, 54);
  const auto manifest = read_manifest(store_, saved.archive.manifest);
  ASSERT_TRUE(manifest);
  const auto at = [&](uint64_t Limits::*limit, uint64_t least) {
    Limits limits;
    limits.*limit = least;
    EXPECT_TRUE(verified(limits)) << least;
    limits.*limit = least - 1;
    EXPECT_FALSE(verified(limits)) << least;
  };
  at(&Limits::max_manifest_bytes, manifest->size);
  const auto config = read_config(store_, *manifest);
  ASSERT_TRUE(config);
  at(&Limits::max_frame_bytes, config->layers[0].plain_bytes);
  at(&Limits::max_plain_bytes, config->layers[0].plain_bytes);
  const std::string json = run("zstd -dc " + store_.blob_path(manifest->config.digest));
  at(&Limits::max_config_plain_bytes, json.size());
}

}  // namespace
}  // namespace compilecache::archive::test
