#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive_fixture.hpp"

// Damaged archives are not loaded, and a failed load leaves nothing.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

class Damage : public ArchiveTest {
 protected:
  void flip(const std::string& digest, size_t at) {
    const std::string path = store_.blob_path(digest);
    std::string bytes = read_file(path);
    ASSERT_LT(at, bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 0x21);
    write_file(path, bytes);
  }
  // Expects that a load fails with this code, names the blob, and leaves its directory as it was.
  void expect_failure(const std::string& manifest, ErrorCode code, const std::string& blob) {
    const std::string named = blob.substr(7);  // also in its path
    const std::string into = temp_.path("into");
    fs::create_directories(into + "/kept");
    const auto loaded = try_load(manifest, into);
    ASSERT_FALSE(loaded) << named;
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(named), std::string::npos) << loaded.error().message;
    EXPECT_EQ(loaded.error().digest, blob) << loaded.error().message;
    EXPECT_EQ(names_below(into), std::vector<std::string>{"kept"});
    const auto verified = verify(store_, manifest);
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.error().code, code) << verified.error().message;
    EXPECT_EQ(verified.error().digest, blob) << verified.error().message;
  }
};

TEST_F(Damage, AFlippedByteAnywhereInAnyBlobIsCorrupt) {
  const Tree tree = {{"a/b", {noise(60'000, 50), false}},
                     {"a/c", {std::string(70'000, 'c'), true}},
                     {"d", {"text", false}}};
  const auto first = save(tree);
  const auto second = save({{"e/f", {noise(5'000, 51), false}}}, first.archive.manifest);
  for (const std::string& blob : second.archive.blobs()) {
    const size_t size = fs::file_size(store_.blob_path(blob));
    // All bytes at both ends, where headers and tables are, and some in the middle.
    for (size_t at = 0; at < size;
         at += at < 40 || at + 40 > size ? 1 : std::max<size_t>(1, size / 7)) {
      flip(blob, at);
      expect_failure(second.archive.manifest, ErrorCode::kCorrupt, blob);
      flip(blob, at);
      if (at < size - 40 && at + size / 7 > size - 40 && at > 40) at = size - 41;
    }
  }
  EXPECT_EQ(load(second.archive.manifest).size(), 4U);
}

// In a layer that is not hashed as a whole, unused bytes may be damaged, but never a file that is
// loaded.
TEST_F(Damage, AFlippedByteInALayerThatIsNotHashedNeverReachesAFile) {
  const Tree tree = {{"a/b", {noise(700'000, 61), false}},
                     {"a/c", {std::string(70'000, 'c'), true}},
                     {"d", {"text", false}}};
  const auto saved = save(tree);
  const std::string layer = saved.archive.layers.front();
  const size_t size = fs::file_size(store_.blob_path(layer));
  ExtractOptions options;
  options.hash_layers_up_to = 0;
  size_t found = 0;
  size_t flipped = 0;
  for (size_t at = 0; at < size; at += at < 600 || at + 600 > size ? 1 : 9'973, ++flipped) {
    const std::string into = temp_.path("into");
    options.roots = {{"torch", into}};
    flip(layer, at);
    const auto loaded = extract(store_, saved.archive.manifest, options);
    if (loaded) {
      EXPECT_EQ(read_tree(into), tree) << at;
    } else {
      ++found;
      EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt) << loaded.error().message;
      EXPECT_NE(loaded.error().message.find(layer), std::string::npos) << loaded.error().message;
      EXPECT_EQ(loaded.error().digest, layer);
      EXPECT_NE(loaded.error().message.find("its digest promises"), std::string::npos);
      EXPECT_FALSE(fs::exists(into));
    }
    fs::remove_all(into);
    EXPECT_FALSE(verify(store_, saved.archive.manifest)) << at;
    flip(layer, at);
  }
  EXPECT_GT(found * 10, flipped * 8);
}

TEST_F(Damage, ACutOffOrLongerBlobIsCorrupt) {
  const auto saved = save({{"a", {noise(60'000, 52), false}}});
  for (const std::string& blob : saved.archive.blobs()) {
    const std::string path = store_.blob_path(blob);
    const std::string whole = read_file(path);
    for (const std::string& bytes :
         {std::string(), whole.substr(0, 7), whole.substr(0, whole.size() - 1), whole + "x"}) {
      write_file(path, bytes);
      expect_failure(saved.archive.manifest, ErrorCode::kCorrupt, blob);
    }
    write_file(path, whole);
  }
}

TEST_F(Damage, AMissingBlobIsAMissAndNotCorruption) {
  const auto first = save({{"a", {noise(60'000, 53), false}}});
  const auto second = save({{"b", {noise(60'000, 54), false}}}, first.archive.manifest);
  for (const std::string& blob : second.archive.blobs()) {
    fs::rename(store_.blob_path(blob), temp_.path("away"));
    expect_failure(second.archive.manifest, ErrorCode::kNotFound, blob);
    fs::rename(temp_.path("away"), store_.blob_path(blob));
  }
  const std::string none = "sha256:" + std::string(64, '0');
  expect_failure(none, ErrorCode::kNotFound, none);
}

TEST_F(Damage, WhatIsNoDigestIsRefused) {
  for (const std::string& digest :
       {std::string(), std::string("sha256:../../etc/passwd"), std::string(64, 'a'),
        "sha256:" + std::string(64, 'A'), "sha512:" + std::string(64, 'a')}) {
    const auto loaded = try_load(digest, temp_.path("into"));
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::kInvalid) << digest;
  }
}

TEST_F(Damage, ALinkInPlaceOfABlobIsNotFollowed) {
  const auto saved = save({{"a", {noise(60'000, 55), false}}});
  for (const std::string& blob : saved.archive.blobs()) {
    fs::rename(store_.blob_path(blob), temp_.path("away"));
    fs::create_symlink(temp_.path("away"), store_.blob_path(blob));
    EXPECT_FALSE(try_load(saved.archive.manifest, temp_.path("into")));
    EXPECT_TRUE(names_below(temp_.path("into")).empty());
    fs::rename(temp_.path("away"), store_.blob_path(blob));
  }
}

TEST_F(Damage, WhatIsNoFileInPlaceOfABlobIsDamage) {
  const auto saved = save({{"a", {noise(60'000, 55), false}}});
  for (const std::string& blob : saved.archive.blobs()) {
    const std::string path = store_.blob_path(blob);
    fs::rename(path, temp_.path("away"));
    fs::create_symlink(temp_.path("away"), path);
    expect_failure(saved.archive.manifest, ErrorCode::kCorrupt, blob);
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
    expect_failure(saved.archive.manifest, ErrorCode::kCorrupt, blob);
    fs::remove(path);
    fs::create_directory(path);
    expect_failure(saved.archive.manifest, ErrorCode::kCorrupt, blob);
    fs::remove(path);
    fs::rename(temp_.path("away"), path);
  }
}

TEST_F(Damage, AFileThatIsThereIsAConflictAndStays) {
  const auto saved = save({{"a", {"archive", false}},
                           {"b/c", {noise(9 << 20, 56), false}},
                           {"m/n", {"archive", false}}});
  const std::string into = temp_.path("into");
  write_tree(into, {{"m/n", {"mine", false}}, {"m/o", {"mine too", false}}});
  const auto loaded = try_load(saved.archive.manifest, into);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kConflict) << loaded.error().message;
  EXPECT_EQ(read_tree(into), (Tree{{"m/n", {"mine", false}}, {"m/o", {"mine too", false}}}));
  EXPECT_FALSE(fs::exists(into + "/b"));
}

TEST_F(Damage, LinksInTheDestinationAreNotFollowed) {
  const auto saved = save({{"a/b", {"archive", false}}});
  fs::create_directories(temp_.path("elsewhere"));
  fs::create_directories(temp_.path("into"));
  fs::create_directory_symlink(temp_.path("elsewhere"), temp_.path("into/a"));
  const auto loaded = try_load(saved.archive.manifest, temp_.path("into"));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kIo) << loaded.error().message;
  EXPECT_TRUE(names_below(temp_.path("elsewhere")).empty());
}

TEST_F(Damage, ALoadGivesUpWhenToldToAndCleansUp) {
  Tree tree;
  for (int i = 0; i < 300; ++i)
    tree["d" + std::to_string(i % 7) + "/f" + std::to_string(i)] = {noise(100'000, i), false};
  const auto saved = save(tree);
  const std::string into = temp_.path("into");
  ExtractOptions options;
  options.roots = {{"torch", into}};
  options.memory_bytes = 9 << 20;
  uint64_t total = 0;
  options.checkpoint = [&](const Progress& progress) {
    total = progress.total_plain_bytes;
    return progress.plain_bytes < 12 << 20;
  };
  const auto loaded = extract(store_, saved.archive.manifest, options);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kCancelled);
  EXPECT_GT(total, 30'000'000U);
  EXPECT_FALSE(fs::exists(into)) << "it was not there before";
}

// A file system of 1 MiB.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    fs::create_directories(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST_F(Damage, ALoadOntoAFullDiskIsAnIoErrorAndCleansUp) {
  const SmallDisk disk(temp_.path("disk"));
  if (!disk.mounted()) GTEST_SKIP() << "may not mount; faults_test has ENOSPC for every call";
  const auto saved = save({{"a/b", {noise(500'000, 57), false}},
                           {"c/d", {noise(900'000, 58), false}},
                           {"e", {"small", false}}});
  const std::string into = temp_.path("disk/into");
  const auto loaded = try_load(saved.archive.manifest, into);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kIo) << loaded.error().message;
  EXPECT_NE(loaded.error().message.find("No space left"), std::string::npos);
  EXPECT_NE(loaded.error().message.find(into), std::string::npos) << loaded.error().message;
  EXPECT_TRUE(names_below(temp_.path("disk")).empty());
}

TEST_F(Damage, ASaveOntoAFullDiskKeepsWhatIsThere) {
  const std::string root = temp_.path("disk");
  const SmallDisk disk(root);
  if (!disk.mounted()) GTEST_SKIP() << "may not mount; faults_test has ENOSPC for every call";
  ASSERT_TRUE(store::DirectoryStore(root + "/store").prepare(owner_, false));
  const auto write = [&](const Tree& tree) {
    const std::string from = temp_.path("from-" + std::to_string(++counter_));
    write_tree(from, tree);
    WriteRequest request;
    request.files = sources(from);
    return write_into(root + "/store", request);
  };
  const auto first = write({{"a", {noise(300'000, 59), false}}});
  ASSERT_TRUE(first) << first.error().message;
  const auto before = names_below(root);
  const auto second = write({{"b", {noise(2'000'000, 60), false}}});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_NE(second.error().message.find("No space left"), std::string::npos);
  EXPECT_EQ(names_below(root), before);
  EXPECT_TRUE(verify(store::DirectoryStore(root + "/store"), first->archive.manifest));
}

TEST_F(Damage, AnotherFormatVersionSaysWhichOneWroteIt) {
  const auto saved = save({{"a", {"a", false}}});
  auto manifest = read_manifest(store_, saved.archive.manifest);
  ASSERT_TRUE(manifest);
  // A config as a later release might write it.
  const std::string config = temp_.path("config");
  write_file(config, R"({"formatVersion":7,"layers":{"new":"ways"},"files":[]})");
  run("zstd -q " + config + " -o " + config + ".zst");
  const std::string digest = "sha256:" + run("sha256sum < " + config + ".zst").substr(0, 64);
  fs::copy(config + ".zst", store_.blob_path(digest));
  manifest->config.digest = digest;
  manifest->config.size = fs::file_size(config + ".zst");
  const auto read = read_config(store_, *manifest);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
  EXPECT_NE(read.error().message.find("version 7"), std::string::npos) << read.error().message;
}

}  // namespace
}  // namespace compilecache::archive::test
