#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "archive/format.hpp"
#include "archive_fixture.hpp"
#include "store/index.hpp"

// The memory that a save and a load may take, whatever the archive's size. The kernel refuses them
// more, and then they fail.

namespace compilecache::archive::test {
namespace {

constexpr rlim_t kLoad = 64U << 20;
constexpr rlim_t kSave = 128U << 20;

// Whether `work` succeeds in a process that may have this much memory of its own.
bool within(rlim_t bytes, const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    // Hardly anything of the threads' stacks is used, but all of it counts.
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, 256U << 10);
    ::pthread_setattr_default_np(&attributes);
    const rlimit data{bytes, bytes};
    if (bytes != RLIM_INFINITY && ::setrlimit(RLIMIT_DATA, &data) != 0) ::_exit(2);
    bool done = false;
    try {
      done = work();
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "%s\n", problem.what());
    }
    ::_exit(done ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool say(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return false;
}

class Memory : public ArchiveTest {
 protected:
  // Archives larger than any bound: of files that hardly compress, of files that do, and of many
  // small ones. Processes of their own make them, whose memory is not inherited.
  void SetUp() override {
    ASSERT_TRUE(within(RLIM_INFINITY, [&] { return make_tree(); }));
  }

  bool make_tree() {
    for (int i = 0; i < 6; ++i)
      write_file(temp_.path("tree/noise/" + std::to_string(i)), noise((9 << 20) + i, i));
    for (int i = 0; i < 6; ++i) {
      std::string text;
      for (int line = 0; text.size() < 13 << 20; ++line)
        text += "tmp" + std::to_string(line * 7919 + i) + " = tl.load(in_ptr0 + x0, xmask)\n";
      write_file(temp_.path("tree/text/" + std::to_string(i)), text);
    }
    for (int i = 0; i < 2000; ++i)
      write_file(
          temp_.path("tree/small/" + std::to_string(i % 100) + "/a-long-name-" + std::to_string(i)),
          noise(100, i));
    return true;
  }

  [[nodiscard]] std::string manifest_file() const { return temp_.path("manifest"); }

  bool save_all(const WriteSettings& settings, const std::string& parent = "") {
    WriteRequest request;
    request.settings = settings;
    request.parent = parent;
    const std::string tree = temp_.path("tree");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(tree)) {
      const std::string path = entry.path().string();
      if (entry.is_regular_file())
        request.files.push_back({path, "torch" + path.substr(tree.size())});
    }
    const auto saved = write_archive(store_, std::move(request));
    if (!saved) return say(saved.error());
    write_file(manifest_file(), saved->archive.manifest);
    return true;
  }

  bool load_all(const std::string& manifest) {
    ExtractOptions options;
    options.roots = {{"torch", temp_.path("loaded")}};
    const auto loaded = extract(store_, manifest, options);
    return loaded ? true : say(loaded.error());
  }
};

TEST_F(Memory, OfSaveAndLoadIsBounded) {
  for (const int level : {1, 9}) {
    WriteSettings settings;
    settings.compression_level = level;
    settings.threads = 8;
    ASSERT_TRUE(within(kSave, [&] { return save_all(settings); })) << level;
    const std::string manifest = read_file(manifest_file());
    ASSERT_TRUE(within(kLoad, [&] { return load_all(manifest); })) << level;
    std::filesystem::remove_all(temp_.path("loaded"));
  }
}

TEST_F(Memory, OfACompactionIsBounded) {
  ASSERT_TRUE(within(kSave, [&] { return save_all({}); }));
  const std::string first = read_file(manifest_file());
  // Supersedes more than half of the files.
  const auto change = [&] {
    for (int i = 0; i < 6; ++i) {
      write_file(temp_.path("tree/noise/" + std::to_string(i)), noise(9 << 20, 100 + i));
      write_file(temp_.path("tree/text/" + std::to_string(i)), noise(1 << 20, 200 + i));
    }
    return true;
  };
  ASSERT_TRUE(within(RLIM_INFINITY, change));
  ASSERT_TRUE(within(kSave, [&] { return save_all({}, first); }));
}

// A load with too little memory must say so and not report damage, for which the archive would be
// deleted.
TEST_F(Memory, TooLittleIsNotTakenForDamage) {
  ASSERT_TRUE(within(kSave, [&] { return save_all({}); }));
  const std::string manifest = read_file(manifest_file());
  for (rlim_t megabytes = 4; megabytes <= 64; megabytes += 4) {
    EXPECT_TRUE(within(megabytes << 20, [&] {
      try {
        const auto verified = verify(store_, manifest);
        return verified || verified.error().code == ErrorCode::kInternal || say(verified.error());
      } catch (const std::bad_alloc&) {
        return true;
      }
    })) << megabytes;
  }
}

// A few bytes from a stranger that would decompress to very many.
TEST_F(Memory, OfABombIsBounded) {
  const auto bomb = [&] {
    const std::string plain = R"({"formatVersion":1,"layers":[],"files":[{"path":")" +
                              std::string(248U << 20, 'x') + "\"}]}";
    write_file(temp_.path("bomb"), plain);
    return true;
  };
  ASSERT_TRUE(within(RLIM_INFINITY, bomb));
  run("zstd -q --rm " + temp_.path("bomb") + " -o " + temp_.path("bomb.zst"));
  const auto put = [&](const std::string& file) {
    const std::string digest = "sha256:" + run("sha256sum < " + file).substr(0, 64);
    std::filesystem::copy(file, store_.blob_path(digest));
    return digest;
  };
  const auto size = std::filesystem::file_size(temp_.path("bomb.zst"));
  const std::string config = put(temp_.path("bomb.zst"));
  write_file(temp_.path("manifest-of-it"),
             std::string(R"({"schemaVersion":2,"artifactType":")") + kArtifactType +
                 R"(","config":{"mediaType":")" + kConfigMediaType + R"(","digest":")" + config +
                 R"(","size":)" + std::to_string(size) + R"(},"layers":[]})");
  const std::string manifest = put(temp_.path("manifest-of-it"));
  EXPECT_TRUE(within(kLoad, [&] {
    ExtractOptions options;
    options.roots = {{"torch", temp_.path("loaded")}};
    const auto loaded = extract(store_, manifest, options);
    return !loaded && loaded.error().code == ErrorCode::kCorrupt;
  }));
  const auto put_index = [&] {
    std::string index = R"({"manifests":[)";
    while (index.size() < (8U << 20) - 10) index += "0,";
    write_file(store_.path() + "/index.json", index + "0]}");
    return true;
  };
  ASSERT_TRUE(within(RLIM_INFINITY, put_index));
  EXPECT_TRUE(within(kLoad, [&] { return store_.read_index()->entries.empty(); }));
}

// As many files as an archive may have: then the lists of files take most of the memory.
TEST_F(Memory, OfAsManyFilesAsThereMayBeIsBounded) {
  const auto make_many = [&] {
    std::filesystem::remove_all(temp_.path("tree/small"));
    for (uint64_t i = 0; i < Limits{}.max_entries - 12; ++i) {
      write_file(temp_.path("tree/many/" + std::to_string(i % 500) + "/c" + std::string(50, 'x') +
                            std::to_string(i) + ".py"),
                 "x = " + std::to_string(i));
    }
    return true;
  };
  ASSERT_TRUE(within(RLIM_INFINITY, make_many));
  ASSERT_TRUE(within(kSave, [&] { return save_all({}); }));
  const std::string first = read_file(manifest_file());
  ASSERT_TRUE(within(kLoad, [&] { return load_all(first); }));
  ASSERT_TRUE(within(RLIM_INFINITY, [&] {
    write_file(temp_.path("tree/noise/0"), noise(1 << 20, 100));
    return true;
  }));
  // With a parent of so many files there are two lists.
  ASSERT_TRUE(within(kSave, [&] { return save_all({}, first); }));
}

}  // namespace
}  // namespace compilecache::archive::test
