#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "archive/blob_store.hpp"
#include "archive/layer/compressibility.hpp"
#include "archive/manifest.hpp"
#include "archive_fixture.hpp"
#include "store/upkeep.hpp"

// Saves under unusual circumstances.

namespace compilecache::archive::test {
namespace {

class Write : public ArchiveTest {
 protected:
  // Checks that no temporary file is left.
  void TearDown() override {
    for (const std::string& name : names_below(store_.path()))
      EXPECT_EQ(name.find(".incomplete"), std::string::npos) << name;
  }
  WriteRequest request_for(const Tree& tree) {
    write_tree(temp_.path("tree"), tree);
    WriteRequest request;
    request.files = sources(temp_.path("tree"));
    return request;
  }
  // Makes a file of zeros, which takes no space.
  void make_sparse(const std::string& name, uint64_t size) {
    const std::string path = temp_.path("tree/" + name);
    std::ofstream(path).close();
    std::filesystem::resize_file(path, size);
  }
  // The reasons by path.
  static std::map<std::string, LeftOutReason> reasons(const WriteResult& saved) {
    std::map<std::string, LeftOutReason> reasons;
    for (const LeftOut& item : saved.left_out) reasons[item.path] = item.reason;
    return reasons;
  }
  size_t blob_count() { return names_below(store_.path() + "/blobs/sha256").size(); }
};

TEST_F(Write, AFileThatChangesWhileItIsReadIsLeftOut) {
  for (const size_t size : {size_t{100'000}, size_t{9} << 20}) {  // in one frame, and over several
    auto request =
        request_for({{"aaa", {noise(5 << 20, 30), false}}, {"zzz", {noise(size, 31), false}}});
    bool done = false;
    request.checkpoint = [&](const Progress& progress) {
      if (progress.plain_bytes > (5 << 20) - 4096 && !done) {
        std::ofstream(temp_.path("tree/zzz"), std::ios::app) << "more";
        done = true;
      }
      return true;
    };
    const auto saved = write_archive(store_, request);
    ASSERT_TRUE(saved) << saved.error().message;
    ASSERT_EQ(saved->left_out.size(), 1U) << size;
    EXPECT_EQ(saved->left_out[0].path, "torch/zzz");
    EXPECT_EQ(saved->left_out[0].reason, LeftOutReason::kBusy);
    EXPECT_EQ(load(saved->archive.manifest), (Tree{{"aaa", {noise(5 << 20, 30), false}}}));
  }
}

TEST_F(Write, FilesThatChangeAtOnceCostOneAttempt) {
  const Tree good = {{"aaa", {noise(5 << 20, 30), false}}};
  Tree tree = good;
  for (int i = 0; i < 8; ++i) tree["b" + std::to_string(i)] = {noise(200'000, 90 + i), false};
  auto request = request_for(tree);
  bool done = false;
  request.checkpoint = [&](const Progress& progress) {
    for (int i = 0; i < 8 && !done && progress.plain_bytes > (5 << 20) - 4096; ++i)
      std::ofstream(temp_.path("tree/b" + std::to_string(i)), std::ios::app) << "more";
    done = done || progress.plain_bytes > (5 << 20) - 4096;
    return true;
  };
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->left_out.size(), 8U);
  EXPECT_EQ(load(saved->archive.manifest), good);
}

TEST_F(Write, ABusyFileLeavesTheParentsVersionInPlace) {
  const auto first = save({{"zzz", {"before", false}}, {"pad", {noise(9000, 37), false}}});
  auto request = request_for({{"aaa", {noise(10'000, 38), false}},
                              {"aab", {noise(9'999, 38), false}},
                              {"zzz", {"after it", false}}});
  request.parent = first.archive.manifest;
  bool done = false;
  request.checkpoint = [&](const Progress& progress) {
    if (progress.plain_bytes > 0 && !done) {
      std::ofstream(temp_.path("tree/zzz"), std::ios::app) << "more";
      done = true;
    }
    return true;
  };
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(load(saved->archive.manifest)["zzz"].bytes, "before");
  EXPECT_EQ(load(saved->archive.manifest)["aaa"].bytes, noise(10'000, 38));
}

TEST_F(Write, GivesUpWhenFilesNeverStopChanging) {
  Tree tree = {{"a", {noise(200'000, 32), false}}};
  for (int i = 0; i < 6; ++i) tree["b" + std::to_string(i)] = {noise(200'000, 40 + i), false};
  auto request = request_for(tree);
  int next = 1;  // the first two are read before anything is packed
  uint64_t last = 0;
  request.checkpoint = [&](const Progress& progress) {
    if (progress.plain_bytes < last && next < 6) ++next;  // started over
    last = progress.plain_bytes;
    std::ofstream(temp_.path("tree/b" + std::to_string(next)), std::ios::app) << "x";
    return true;
  };
  const auto saved = write_archive(store_, request);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kUnavailable) << saved.error().message;
  EXPECT_EQ(blob_count(), 0U);
}

TEST_F(Write, WhatCannotBePackedIsSaid) {
  auto request = request_for({{"good", {"1", false}}, {"bad\nname", {"2", false}}});
  ::symlink("good", temp_.path("tree/link").c_str());
  ::mkfifo(temp_.path("tree/fifo").c_str(), 0600);
  request.files.push_back({temp_.path("tree/link"), "torch/link"});
  request.files.push_back({temp_.path("tree/fifo"), "torch/fifo"});
  request.files.push_back({temp_.path("tree/gone"), "torch/gone"});
  request.files.push_back({temp_.path("tree/good"), "torch/../up"});
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(reasons(*saved),
            (std::map<std::string, LeftOutReason>{{"torch/bad\nname", LeftOutReason::kInvalidPath},
                                                  {"torch/link", LeftOutReason::kNotRegular},
                                                  {"torch/fifo", LeftOutReason::kNotRegular},
                                                  {"torch/gone", LeftOutReason::kVanished},
                                                  {"torch/../up", LeftOutReason::kInvalidPath}}));
  EXPECT_EQ(load(saved->archive.manifest), (Tree{{"good", {"1", false}}}));
}

TEST_F(Write, UnreadableFilesAreLeftOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  auto request = request_for({{"open", {"1", false}}, {"secret", {"2", false}}});
  ::chmod(temp_.path("").c_str(), 0755);
  ::chmod(temp_.path("tree/secret").c_str(), 0600);
  ASSERT_EQ(::seteuid(4321), 0);
  const auto saved = write_archive(store_, request);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(saved) << saved.error().message << ": any user may save into a prepared store";
  ASSERT_EQ(saved->left_out.size(), 1U);
  EXPECT_EQ(saved->left_out[0].reason, LeftOutReason::kUnreadable);
  struct stat info {};
  for (const std::string& blob : saved->archive.blobs()) {
    ASSERT_EQ(::stat(store_.blob_path(blob).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0644U);
  }
}

TEST_F(Write, AnArchiveThatWouldBeTooLargeIsRefused) {
  const auto first = save({{"a", {noise(300'000, 33), false}}});
  auto request = request_for({{"b", {noise(300'000, 34), false}}});
  request.parent = first.archive.manifest;
  request.settings.max_archive_bytes = 500'000;
  const size_t before = blob_count();
  const auto second = write_archive(store_, request);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(second.error().message.find("maxArchiveSize"), std::string::npos);
  EXPECT_EQ(blob_count(), before);
  EXPECT_EQ(load(first.archive.manifest).size(), 1U) << "the old head stands";
}

// The limit includes manifest and config, and does not depend on what the store has already.
TEST_F(Write, AnArchiveThatIsJustAtItsLimitIsWritten) {
  const auto first = save({{"a", {noise(30'000, 84), false}}});
  auto request = request_for({{"b", {noise(30'000, 85), false}}});
  request.parent = first.archive.manifest;
  const auto second = write_archive(store_, request);
  ASSERT_TRUE(second) << second.error().message;
  request.settings.max_archive_bytes = second->archive.compressed_bytes;
  EXPECT_TRUE(write_archive(store_, request));
  --request.settings.max_archive_bytes;
  const auto refused = write_archive(store_, request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
}

// The bytes that a load writes count, not those that are stored.
TEST_F(Write, OfFilesThatAreTogetherMoreThanALoadTakesThoseThatFitAreSaved) {
  const FileContent same = {noise(60'000, 89), false};
  auto request = request_for({{"a", same}, {"b", same}, {"c", same}});
  request.settings.limits.max_plain_bytes = 180'000;
  const auto all = write_archive(store_, request);
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->left_out.empty());
  --request.settings.limits.max_plain_bytes;
  const auto some = write_archive(store_, request);
  ASSERT_TRUE(some);
  ASSERT_EQ(some->left_out.size(), 1U);
  EXPECT_EQ(some->left_out.front().reason, LeftOutReason::kTooMany);
  EXPECT_EQ(load(some->archive.manifest).size(), 2U);
}

// A file that compresses so well would be refused as a bomb by every load.
TEST_F(Write, AFileThatNoReaderWouldTakeIsLeftOutAndTheRestIsSaved) {
  const Tree tree = {{"aaa", {noise(9000, 80), false}}, {"sub/zzz", {"good", false}}};
  auto request = request_for(tree);
  make_sparse("sub/zeros", 190 << 20);
  make_sparse("sub/few", 5 << 20);  // alone it is within the ratio
  request.files = sources(temp_.path("tree"));
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(reasons(*saved),
            (std::map<std::string, LeftOutReason>{{"torch/sub/zeros", LeftOutReason::kTooLarge}}));
  EXPECT_EQ(saved->left_out[0].detail,
            "torch/sub/zeros of 190Mi packs into less than 1/2000 of that, which no loader takes; "
            "keep the file out of the cache directory");
  Tree loaded = load(saved->archive.manifest);
  EXPECT_EQ(loaded["sub/few"].bytes.size(), 5U << 20);
  loaded.erase("sub/few");
  EXPECT_EQ(loaded, tree);
}

TEST_F(Write, ManyFilesThatNoReaderWouldTakeTogetherAreLeftOutAtOnce) {
  const Tree tree = {{"good", {noise(9000, 81), false}}};
  auto request = request_for(tree);
  for (int i = 0; i < 12; ++i) make_sparse("zeros" + std::to_string(i), (20 << 20) + i);
  request.files = sources(temp_.path("tree"));
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_FALSE(saved->left_out.empty());
  const Tree loaded = load(saved->archive.manifest);
  EXPECT_TRUE(loaded.contains("good"));
  EXPECT_EQ(loaded.size() + saved->left_out.size(), 13U);
}

TEST_F(Write, AFileLargerThanTheWholeArchiveMayBeIsLeftOut) {
  const Tree tree = {{"a", {noise(100'000, 82), false}}, {"b", {std::string(1 << 20, 'b'), false}}};
  auto request = request_for(tree);
  write_file(temp_.path("tree/huge"), noise(600'000, 83));
  request.files = sources(temp_.path("tree"));
  request.settings.max_archive_bytes = 512 << 10;
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  ASSERT_EQ(saved->left_out.size(), 1U);
  EXPECT_EQ(saved->left_out[0].reason, LeftOutReason::kTooLarge);
  EXPECT_THAT(saved->left_out[0].detail, ::testing::StartsWith("torch/huge of 58"));
  EXPECT_THAT(saved->left_out[0].detail, ::testing::HasSubstr("the 512Ki of save.maxArchiveSize"));
  EXPECT_EQ(load(saved->archive.manifest), tree) << "what packs into less than the limit is in it";
  // Also with a parent, and if nothing else is new.
  request.parent = saved->archive.manifest;
  const auto again = write_archive(store_, request);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->nothing_new);
  EXPECT_EQ(again->left_out.size(), 1U);
}

TEST_F(Write, AFileLargerThanAnyArchiveIsLeftOutUnread) {
  auto request = request_for({{"good", {"good", false}}});
  make_sparse("endless", 65ULL << 30);
  // Added by hand, as listing all files would read them.
  request.files.push_back({temp_.path("tree/endless"), "torch/endless"});
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(reasons(*saved),
            (std::map<std::string, LeftOutReason>{{"torch/endless", LeftOutReason::kTooLarge}}));
  EXPECT_THAT(saved->left_out[0].detail, ::testing::HasSubstr("at most 64Gi"));
  EXPECT_EQ(load(saved->archive.manifest).size(), 1U);
}

TEST_F(Write, WhatIsOfNoUseWithoutATooLargeFileIsLeftOutWithIt) {
  auto request = request_for({{"unit/small", {"small", false}}, {"other/small", {"other", false}}});
  make_sparse("unit/zeros", 100 << 20);
  request.files = sources(temp_.path("tree"));
  for (SourceFile& file : request.files) {
    file.unit = file.path.starts_with("torch/unit/") ? 1 : file.path.starts_with("torch/o") ? 2 : 0;
  }
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(reasons(*saved), (std::map<std::string, LeftOutReason>{
                                 {"torch/unit/zeros", LeftOutReason::kTooLarge},
                                 {"torch/unit/small", LeftOutReason::kIncomplete}}));
  EXPECT_EQ(load(saved->archive.manifest), (Tree{{"other/small", {"other", false}}}));
}

TEST_F(Write, OfTooManyFilesTheOldestUnitsAreSaved) {
  auto request = request_for({{"new/a", {"a", false}},
                              {"new/b", {"b", false}},
                              {"old/a", {"c", false}},
                              {"old/b", {"d", false}},
                              {"single", {"e", false}}});
  for (SourceFile& file : request.files) {
    const bool is_new = file.path.starts_with("torch/new/");
    file.unit = is_new ? 1 : file.path.starts_with("torch/old/") ? 2 : 0;
    const auto now = std::filesystem::last_write_time(file.local);
    std::filesystem::last_write_time(file.local, now - std::chrono::hours(is_new ? 1 : 2));
  }
  request.settings.limits.max_entries = 4;
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(reasons(*saved),
            (std::map<std::string, LeftOutReason>{{"torch/new/a", LeftOutReason::kTooMany},
                                                  {"torch/new/b", LeftOutReason::kIncomplete}}))
      << "one of them would fit, and be of no use";
  EXPECT_EQ(load(saved->archive.manifest),
            (Tree{{"old/a", {"c", false}}, {"old/b", {"d", false}}, {"single", {"e", false}}}));
}

TEST_F(Write, WhereTheParentIsFullNothingIsAdded) {
  const auto first = save({{"a", {"a", false}}, {"b", {"b", false}}});
  auto request = request_for({{"a", {"another", false}}, {"c", {"c", false}}});
  request.parent = first.archive.manifest;
  request.settings.limits.max_entries = 2;
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(load(saved->archive.manifest), (Tree{{"a", {"another", false}}, {"b", {"b", false}}}));
}

TEST_F(Write, StopsWhenToldTo) {
  auto request = request_for({{"a", {noise(12 << 20, 35), false}}});
  int calls = 0;
  request.checkpoint = [&](const Progress&) { return ++calls < 5; };
  const auto saved = write_archive(store_, request);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(blob_count(), 0U);
}

TEST_F(Write, ToldToStopItReadsNoFurtherFile) {
  const auto first = save({{"a", {noise(9000, 86), false}}});
  // These have the size of stored files, so that they are compared with them first.
  auto request = request_for({{"b", {noise(9000, 87), false}}, {"c", {noise(9000, 88), false}}});
  request.parent = first.archive.manifest;
  int calls = 0;
  request.checkpoint = [&](const Progress&) { return ++calls > 1; };
  const auto saved = write_archive(store_, request);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(calls, 1);
}

TEST_F(Write, NoMoreNotesAreWrittenThanAreRead) {
  auto request = request_for({{"a", {"a", false}}});
  for (size_t i = 0; i < kMostNotes + 5; ++i) request.notes["n" + std::to_string(i)] = "note";
  request.notes["long"] = std::string(kLongestNote + 1, 'x');
  request.notes["a text that is longer as JSON"] = std::string(30'000, '\n');
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  const auto manifest = read_manifest(store_, saved->archive.manifest);
  ASSERT_TRUE(manifest);
  const auto config = read_config(store_, *manifest);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->notes.size(), kMostNotes);
  EXPECT_FALSE(config->notes.contains("long"));
  EXPECT_FALSE(config->notes.contains("a text that is longer as JSON"));
}

// Its bytes stay in their layer until that is written again.
TEST_F(Write, WhatIsDroppedIsNotLoadedAnyMoreAndNothingElseIsWrittenAgain) {
  const auto first = save({{"a", {noise(90'000, 1), false}}, {"dead", {noise(9000, 2), false}}});
  auto request = request_for({{"b", {noise(900, 3), false}}});
  request.parent = first.archive.manifest;
  request.dropped = [](const std::string& path) { return path == "torch/dead"; };
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->archive.layers.size(), 2U);
  EXPECT_LT(saved->written_bytes, 9000U);
  EXPECT_EQ(load(saved->archive.manifest),
            (Tree{{"a", {noise(90'000, 1), false}}, {"b", {noise(900, 3), false}}}));
}

TEST_F(Write, ForItsNotesAnArchiveIsWrittenAnewWhereNoFileIsNew) {
  const Tree tree = {{"a", {"a", false}}};
  const auto first = save(tree);
  auto request = request_for(tree);
  request.parent = first.archive.manifest;
  request.notes["use"] = "read";
  auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_TRUE(saved->nothing_new);
  request.anew = true;
  saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_FALSE(saved->nothing_new);
  EXPECT_EQ(saved->archive.layers, first.archive.layers);
  EXPECT_EQ(load(saved->archive.manifest), tree);
  EXPECT_EQ(read_config(store_, *read_manifest(store_, saved->archive.manifest))->notes.at("use"),
            "read");
}

TEST_F(Write, AFileThatIsNamedTwiceIsPackedOnce) {
  const Tree tree = {{"a", {"a", false}}, {"b", {"b", false}}};
  auto request = request_for(tree);
  request.files.push_back(request.files.front());
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(load(saved->archive.manifest), tree);
}

TEST_F(Write, CondemnedBlobsAreWrittenAnew) {
  const Tree tree = {{"a", {noise(30'000, 36), false}}};
  const auto first = save(tree);
  const auto inodes = [&] {
    std::map<std::string, ino_t> found;
    struct stat info {};
    for (const std::string& blob : first.archive.blobs()) {
      EXPECT_EQ(::stat(store_.blob_path(blob).c_str(), &info), 0);
      found[blob] = info.st_ino;
    }
    return found;
  };
  auto request = request_for(tree);
  for (const std::string& condemned : first.archive.blobs()) {
    const auto before = inodes();
    request.without = {condemned};
    const auto second = write_archive(store_, request);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->archive.manifest, first.archive.manifest);
    for (const auto& [blob, inode] : inodes())
      EXPECT_EQ(inode == before.at(blob), blob != condemned) << blob;
  }
}

TEST_F(Write, ABlobOfTheWrongSizeIsReplaced) {
  const Tree tree = {{"a", {noise(30'000, 38), false}}};
  const auto first = save(tree);
  const std::string blob = store_.blob_path(first.archive.layers[0]);
  const auto size = std::filesystem::file_size(blob);
  for (const auto wrong : {uintmax_t{100}, size + 1}) {
    std::filesystem::resize_file(blob, wrong);
    save(tree);
    EXPECT_EQ(std::filesystem::file_size(blob), size);
    EXPECT_EQ(load(first.archive.manifest), tree);
  }
}

// The beginning has as many bytes as are hashed at once, so that a check might miss those that
// follow.
TEST_F(Write, ABlobThatOnlyBeginsAsItShouldIsReplaced) {
  const std::string content = noise(1 << 20, 41);
  const auto put = [&] {
    auto blob = store_.create(kLayerMediaType);
    EXPECT_TRUE(blob);
    EXPECT_TRUE((*blob)->write({reinterpret_cast<const uint8_t*>(content.data()), content.size()}));
    return (*blob)->commit({});
  };
  const auto first = put();
  ASSERT_TRUE(first);
  EXPECT_TRUE(put()->existed);
  const std::string path = store_.blob_path(first->digest);
  std::ofstream(path, std::ios::app) << "more";
  EXPECT_FALSE(put()->existed);
  EXPECT_EQ(std::filesystem::file_size(path), content.size());
}

TEST_F(Write, ItsOwnFileThatIsGoneIsNoMissingParent) {
  const auto first = save({{"a", {noise(30'000, 39), false}}});
  auto request = request_for({{"b", {noise(30'000, 40), false}}});
  request.parent = first.archive.manifest;
  request.checkpoint = [&](const Progress&) {
    for (const std::string& name : names_below(store_.path())) {
      if (name.ends_with(".incomplete")) std::filesystem::remove(store_.path() + "/" + name);
    }
    return true;
  };
  const auto saved = write_archive(store_, request);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kIo) << saved.error().message;
}

TEST_F(Write, ABlobWithAFlippedByteIsNotCountedOn) {
  const Tree tree = {{"a", {noise(30'000, 39), false}}};
  const auto first = save(tree);
  for (const std::string& blob : first.archive.blobs()) {
    const std::string path = store_.blob_path(blob);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(20);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(20);
    file.put(byte);
    file.close();
    ASSERT_EQ(save(tree).archive.manifest, first.archive.manifest);
    EXPECT_EQ(load(first.archive.manifest), tree) << blob;
  }
}

TEST_F(Write, WhateverStandsInABlobsPlaceIsReplaced) {
  namespace fs = std::filesystem;
  const Tree tree = {{"a", {noise(30'000, 39), false}}};
  const auto first = save(tree);
  for (const std::string& blob : first.archive.blobs()) {
    const std::string path = store_.blob_path(blob);
    const auto save_over = [&](const char* what) {
      ASSERT_EQ(save(tree).archive.manifest, first.archive.manifest) << what;
      EXPECT_EQ(load(first.archive.manifest), tree) << what << " at " << blob;
    };
    fs::remove(path);
    fs::create_symlink("/dev/zero", path);
    save_over("a link");
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
    save_over("a FIFO");
    fs::remove(path);
    fs::create_directory(path);
    save_over("a folder");
  }
  const auto swept = store_.remove_incomplete(std::chrono::seconds(0), WallTime::max());
  ASSERT_TRUE(swept);
}

TEST_F(Write, SettingsOutOfRangeAreRefused) {
  auto request = request_for({{"a", {"a", false}}});
  for (const int level : {0, 20, -5}) {
    request.settings.compression_level = level;
    const auto saved = write_archive(store_, request);
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code, ErrorCode::kInvalid);
  }
  request.settings.compression_level = 3;
  request.settings.frame_bytes = 1;
  EXPECT_FALSE(write_archive(store_, request));
}

TEST_F(Write, WithoutAStoreItSaysSo) {
  auto request = request_for({{"a", {"a", false}}});
  const auto saved = write_into(temp_.path("nowhere"), request);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kIo) << "there is no parent that could be missing";
  EXPECT_NE(saved.error().message.find("prepared"), std::string::npos) << saved.error().message;
}

TEST_F(Write, EveryLevelAndFrameSizeCanBeRead) {
  const Tree tree = {{"a", {noise(3 << 20, 39), false}}, {"b", {std::string(5 << 20, 'b'), false}}};
  for (const int level : {1, 3, 12, 19}) {
    WriteSettings settings;
    settings.compression_level = level;
    settings.frame_bytes = level == 1 ? 64 << 10 : 16 << 20;
    EXPECT_EQ(load(save(tree, "", settings).archive.manifest), tree) << level;
  }
}

TEST_F(Write, WhatHardlyCompressesIsNotCompressedInVain) {
  std::string content = noise(7 << 20, 70);  // two pieces of one frame
  const auto digest = [&](int level, size_t below) {
    WriteSettings settings;
    settings.compression_level = level;
    const auto saved = save({{"weights", {content, false}}}, "", settings);
    EXPECT_EQ(load(saved.archive.manifest), (Tree{{"weights", {content, false}}}));
    EXPECT_LT(saved.archive.compressed_bytes, below);
    return saved.archive.layers.front();
  };
  EXPECT_EQ(digest(3, content.size() + 4096), digest(9, content.size() + 4096))
      << "the level is for what compresses";
  // Only the first piece is text.
  std::string text;
  for (int i = 0; text.size() < 200'000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  content.replace(500'000, text.size(), text);
  const size_t smaller = content.size() - text.size() / 2;
  EXPECT_NE(digest(3, smaller), digest(9, smaller));
}

TEST_F(Write, NoiseThatRepeatsIsStoredOnce) {
  const std::string once = noise(3 << 20, 71);
  const std::string again = "x" + once + "y";  // not equal: packed, but a copy of what is packed
  const auto saved = save({{"a", {once, false}}, {"b", {again, false}}});
  EXPECT_LT(saved.archive.compressed_bytes, once.size() * 11 / 10);
  EXPECT_EQ(load(saved.archive.manifest), (Tree{{"a", {once, false}}, {"b", {again, false}}}));
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Compressibility, IsSeenFromSamples) {
  const auto percent = [](const std::string& bytes) { return sampled_percent(as_bytes(bytes)); };
  EXPECT_GE(percent(noise(1 << 20, 72)), 99U);
  EXPECT_EQ(percent(noise(256 << 10, 72)), 0U) << "small frames cost little";
  EXPECT_LE(percent(std::string(1 << 20, 'x')), 2U);
  EXPECT_LE(percent(noise(4 << 20, 73) + std::string(1 << 20, 'x')), 90U);
}

TEST(Compressibility, RepeatsAreSeenAtAnyDistance) {
  const std::string once = noise(3 << 20, 74);
  EXPECT_FALSE(repeats_at_a_distance(as_bytes(once)));
  EXPECT_FALSE(repeats_at_a_distance({}));
  EXPECT_TRUE(repeats_at_a_distance(as_bytes(once + noise(1'234'567, 75) + once.substr(1 << 20))));
}

}  // namespace
}  // namespace compilecache::archive::test
