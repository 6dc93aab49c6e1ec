#include <fcntl.h>
#include <sys/stat.h>

#include "archive/encode.hpp"
#include "malicious_fixture.hpp"

// Archives have the files' modification times, by which build tools decide what to build again.

namespace compilecache::archive::test {
namespace {

class Times : public MaliciousTest {
 protected:
  // Nanoseconds since 1970.
  static int64_t modified(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  }
  static int64_t accessed(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return int64_t{info.st_atim.tv_sec} * 1'000'000'000 + info.st_atim.tv_nsec;
  }
  void put(const std::string& name, const std::string& content, int64_t when) {
    const std::string path = tree_ + "/" + name;
    write_file(path, content);
    int64_t seconds = when / 1'000'000'000;
    int64_t rest = when % 1'000'000'000;
    if (rest < 0) {
      rest += 1'000'000'000;
      --seconds;
    }
    const timespec times[2] = {{0, UTIME_OMIT}, {seconds, rest}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  WriteResult save_tree(const std::string& parent = "") {
    WriteRequest request;
    request.parent = parent;
    request.files = sources(tree_);
    auto saved = write_archive(store_, std::move(request));
    EXPECT_TRUE(saved) << saved.error().message;
    return saved.value_or(WriteResult{});
  }
  std::string loaded(const std::string& manifest) {
    const std::string into = temp_.path("into-" + std::to_string(++counter_));
    const auto done = try_load(manifest, into);
    EXPECT_TRUE(done) << done.error().message;
    return into;
  }

  const std::string tree_ = temp_.path("tree");
};

constexpr int64_t kThen = 1'700'000'000'123'456'789;

TEST_F(Times, OfWritingAreExactAndThoseOfReadingAreOurs) {
  const std::map<std::string, int64_t> times{
      {"build.ninja", kThen}, {"a/even", 1'600'000'000'000'000'000},
      {"a/large", kThen + 1}, {"a/empty", kThen + 2},
      {"a/old", 1},           {"a/before-1970", -1'500'000'001}};
  for (const auto& [name, when] : times) {
    put(name, name == "a/empty" ? "" : name == "a/large" ? noise(9 << 20, 7) : name, when);
  }
  const std::string into = loaded(save_tree().archive.manifest);
  for (const auto& [name, when] : times) {
    EXPECT_EQ(modified(into + "/" + name), when) << name;
    EXPECT_EQ(accessed(into + "/" + name), 1'000'000'000) << name;
  }
}

TEST_F(Times, EqualFilesKeepTheirOwn) {
  const std::string content = noise(20'000, 3);
  for (int i = 0; i < 5; ++i) put("copy" + std::to_string(i), content, kThen + i);
  const auto first = save_tree();
  for (int i = 5; i < 8; ++i) put("copy" + std::to_string(i), content, kThen + i);
  const auto second = save_tree(first.archive.manifest);
  const std::string into = loaded(second.archive.manifest);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(modified(into + "/copy" + std::to_string(i)), kThen + i) << i;
}

TEST_F(Times, AloneMakeNoNewArchive) {
  put("a", noise(20'000, 4), kThen);
  put("b", "b", kThen);
  const auto first = save_tree();
  put("a", noise(20'000, 4), kThen + 1);
  const auto second = save_tree(first.archive.manifest);
  EXPECT_TRUE(second.nothing_new);
  EXPECT_EQ(second.archive.manifest, first.archive.manifest);
  EXPECT_EQ(second.written_bytes, 0U);
}

// The log of ninja and the files whose times it records go into the same save.
TEST_F(Times, GoAlongWithWhatIsNew) {
  put("built.so", noise(20'000, 5), kThen);
  const auto first = save_tree();
  put("built.so", noise(20'000, 5), kThen + 1);
  put("log", "of the second build", kThen + 2);
  const auto second = save_tree(first.archive.manifest);
  EXPECT_EQ(second.added_files, 1U);
  EXPECT_LT(second.written_bytes, 5'000U) << "the content is there already";
  const std::string into = loaded(second.archive.manifest);
  EXPECT_EQ(modified(into + "/built.so"), kThen + 1);
  EXPECT_EQ(modified(into + "/log"), kThen + 2);
}

TEST_F(Times, AreNoPartOfLayersSoThatEqualContentIsStoredOnce) {
  put("a", noise(20'000, 8), kThen);
  const auto first = save_tree();
  put("a", noise(20'000, 8), kThen + 1);
  const auto second = save_tree();
  EXPECT_EQ(second.archive.layers, first.archive.layers);
  EXPECT_NE(second.archive.config, first.archive.config);
  EXPECT_LT(second.written_bytes, 2'000U);
}

TEST_F(Times, SurviveACompaction) {
  put("kept", noise(30'000, 6), kThen);
  auto saved = save_tree();
  for (int i = 0; i < 6; ++i) {
    put("changed", noise(90'000, 100 + i), kThen + i);
    saved = save_tree(saved.archive.manifest);
  }
  const std::string into = loaded(saved.archive.manifest);
  EXPECT_EQ(modified(into + "/kept"), kThen);
  EXPECT_EQ(modified(into + "/changed"), kThen + 5);
}

TEST_F(Times, AnArchiveWithoutThemLoadsAsBefore) {
  const std::string old =
      archive_of(tar_file("torch/x", "content") + tar_end(), {listed("torch/x", "content")});
  const std::string into = loaded(old);
  EXPECT_GT(modified(into + "/x"), kThen) << "of the load";
  EXPECT_EQ(accessed(into + "/x"), 1'000'000'000);
  EXPECT_EQ(read_file(into + "/x"), "content");
}

}  // namespace
}  // namespace compilecache::archive::test
