#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/fs.hpp"
#include "store/index.hpp"
#include "store/upkeep.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Tests of a directory's store itself: preparing, probing, notes, index, sweeping.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

dev_t device_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_dev;
}

void make_old(const std::string& path, seconds age) {
  struct timespec times[2] = {};
  ::clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= age.count();
  times[1] = times[0];
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

WallTime now() { return std::chrono::system_clock::now(); }

using Store = ArchiveTest;

TEST_F(Store, IsMadeForPodsOfEveryUserWhateverTheUmask) {
  const std::string store = temp_.path("volume/deep/cache");
  const mode_t before = ::umask(077);
  const auto prepared = store::DirectoryStore(store).prepare(owner_, false);
  ::umask(before);
  ASSERT_TRUE(prepared) << prepared.error().message;
  EXPECT_TRUE(prepared->created);
  for (const char* directory : {"", "/blobs", "/blobs/sha256", "/nodes", "/.."})
    EXPECT_EQ(mode_of(store + directory), 0777U) << directory;
  EXPECT_EQ(read_file(store + "/oci-layout"), R"({"imageLayoutVersion":"1.0.0"})");
  EXPECT_EQ(mode_of(store + "/compilecache.json"), 0644U);
  EXPECT_TRUE(store::DirectoryStore(store).read_index()->problems.empty());
  const auto owner = store::DirectoryStore(store).owner();
  ASSERT_TRUE(owner);
  EXPECT_EQ(*owner, owner_);
}

TEST_F(Store, IsFullWhereTheSystemSaysSoWhateverTheMessageNames) {
  using store::Trouble;
  const store::DirectoryStore store(temp_.path("store"));
  ASSERT_TRUE(store::DirectoryStore(temp_.path("store")).prepare(owner_, false));
  const Error full = errno_error("writing", ENOSPC).with("saving");
  EXPECT_EQ(store.trouble(full, store::Use::kWrite), Trouble::kFull);
  EXPECT_EQ(store.trouble(errno_error("writing", EDQUOT), store::Use::kWrite), Trouble::kFull);
  const Error named{ErrorCode::kIo, "reading \"No space left on device.py\": it is a link"};
  EXPECT_EQ(store.trouble(named, store::Use::kWrite), Trouble::kOther);
}

TEST_F(Store, PreparingTwiceChangesNothingAndMendsWhatIsMissing) {
  const auto saved = save({{"a", {"a", false}}});
  ASSERT_TRUE(store_.update_index({saved.archive.manifest, 1, {{kAnnotationName, "x"}}}));
  fs::remove(store_.path() + "/oci-layout");
  fs::remove_all(store_.path() + "/nodes");
  fs::permissions(store_.path() + "/blobs", fs::perms::owner_all | fs::perms::sticky_bit);
  const auto again = store_.prepare(owner_, false);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->created);
  EXPECT_FALSE(again->adopted_from);
  EXPECT_EQ(mode_of(store_.path() + "/blobs"), 0777U);
  EXPECT_TRUE(fs::exists(store_.path() + "/oci-layout"));
  EXPECT_EQ(store_.read_index()->entries.size(), 1U);
  EXPECT_EQ(load(saved.archive.manifest).size(), 1U);
}

// For example a CompileCache that has the name of a database's folder on the claim.
TEST_F(Store, AFolderOfSomebodyElseIsLeftAsItIs) {
  const std::string data = temp_.path("volume/data");
  fs::create_directories(data);
  fs::permissions(data, fs::perms::owner_all);
  write_file(data + "/PG_VERSION", "17");
  for (const bool adopt : {false, true}) {
    const auto prepared = store::DirectoryStore(data).prepare(owner_, adopt);
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, ErrorCode::kConflict);
    EXPECT_NE(prepared.error().message.find("spec.storage.subPath"), std::string::npos);
    EXPECT_EQ(mode_of(data), 0700U);
    EXPECT_EQ(std::distance(fs::directory_iterator(data), {}), 1);
  }
  fs::remove(data + "/PG_VERSION");
  write_file(data + "/" + incomplete_name(), "of a preparation that died");
  EXPECT_TRUE(store::DirectoryStore(data).prepare(owner_, false)) << "an empty folder will do";
  EXPECT_EQ(mode_of(data), 0777U);
}

TEST_F(Store, IsNeverMadeThroughALink) {
  const std::string data = temp_.path("volume/data");
  fs::create_directories(data);
  fs::permissions(data, fs::perms::owner_all);
  fs::create_directory_symlink(data, temp_.path("volume/link"));
  const auto linked = store::DirectoryStore(temp_.path("volume/link")).prepare(owner_, false);
  ASSERT_FALSE(linked);
  EXPECT_EQ(linked.error().code, ErrorCode::kConflict);
  ASSERT_TRUE(store_.prepare(owner_, false));
  for (const char* name : {"/blobs", "/nodes"}) {
    fs::remove_all(store_.path() + name);
    fs::create_directory_symlink(data, store_.path() + name);
    EXPECT_FALSE(store_.prepare(owner_, false)) << name;
    fs::remove(store_.path() + name);
  }
  EXPECT_EQ(mode_of(data), 0700U);
  EXPECT_TRUE(fs::is_empty(data));
}

// For example in the path of a subPath. The volume is a mount of its own.
TEST_F(Store, IsNeverMadeBehindALinkAmongItsParents) {
  if (device_of("/dev/shm") == device_of("/")) GTEST_SKIP() << "/dev/shm is no mount of its own";
  const TempDir volume("/dev/shm");
  const std::string data = volume.path("data");
  fs::create_directories(data);
  fs::permissions(data, fs::perms::owner_all);
  fs::create_directory_symlink(data, volume.path("link"));
  for (const char* store : {"link/transformer", "link/a/b/transformer"}) {
    for (const bool adopt : {false, true}) {
      const auto prepared = store::DirectoryStore(volume.path(store)).prepare(owner_, adopt);
      ASSERT_FALSE(prepared) << store;
      EXPECT_EQ(prepared.error().code, ErrorCode::kConflict) << prepared.error().message;
      EXPECT_NE(prepared.error().message.find("/link is a link"), std::string::npos)
          << prepared.error().message;
    }
  }
  EXPECT_EQ(mode_of(data), 0700U);
  EXPECT_TRUE(fs::is_empty(data));
  EXPECT_TRUE(store::DirectoryStore(volume.path("a/b/transformer")).prepare(owner_, false));
}

// Such links, for example "/var/run", belong to the image and not to the volume.
TEST_F(Store, LinksOfTheRootsMountLeadToIt) {
  if (device_of(temp_.path()) != device_of("/")) GTEST_SKIP() << "the folder is another mount";
  fs::create_directories(temp_.path("real"));
  fs::create_directory_symlink(temp_.path("real"), temp_.path("link"));
  EXPECT_TRUE(store::DirectoryStore(temp_.path("link/store")).prepare(owner_, false));
  EXPECT_TRUE(fs::exists(temp_.path("real/store/blobs/sha256")));
}

TEST_F(Store, OfAnotherOwnerIsRefusedUnlessAdopted) {
  const StoreOwner other{"cluster-2", "ml", "cc-uid-9"};
  const auto refused = store_.prepare(other, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_NE(refused.error().message.find("cc-uid-1"), std::string::npos);
  EXPECT_NE(refused.error().message.find("adopt"), std::string::npos);
  EXPECT_EQ(*store_.owner(), owner_);

  const auto adopted = store_.prepare(other, true);
  ASSERT_TRUE(adopted) << adopted.error().message;
  EXPECT_EQ(adopted->adopted_from, owner_);
  EXPECT_EQ(*store_.owner(), other);
}

TEST_F(Store, WithoutAUsableMarkerIsNobodysToTake) {
  write_file(store_.path() + "/compilecache.json", "{\"cluster\":");
  EXPECT_EQ(store_.prepare(owner_, false).error().code, ErrorCode::kConflict);
  EXPECT_EQ(store_.owner().error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(store_.prepare(owner_, true)) << "it can be taken over";
  fs::remove(store_.path() + "/compilecache.json");
  EXPECT_EQ(store_.prepare(owner_, false).error().code, ErrorCode::kConflict)
      << "an image layout of another program";
  EXPECT_TRUE(store_.prepare(owner_, true));
  EXPECT_EQ(store::DirectoryStore("relative/path").prepare(owner_, false).error().code,
            ErrorCode::kInvalid);
}

TEST_F(Store, AMarkerThatMayNotBeReadIsNobodyElses) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  ASSERT_EQ(::chmod((store_.path() + "/compilecache.json").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(temp_.path("").c_str(), 0755), 0);
  ASSERT_EQ(::seteuid(4321), 0);
  const auto prepared = store_.prepare(owner_, false);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_FALSE(prepared);
  EXPECT_NE(prepared.error().code, ErrorCode::kConflict) << prepared.error().message;
  EXPECT_NE(prepared.error().message.find("compilecache.json"), std::string::npos);
}

TEST_F(Store, ProbeTriesAndLeavesNothing) {
  const auto before = names_below(store_.path());
  const auto probe = store_.probe();
  ASSERT_TRUE(probe) << probe.error().message;
  EXPECT_GT(probe->free_bytes, 0U);
  EXPECT_GE(probe->total_bytes, probe->free_bytes);
  EXPECT_EQ(names_below(store_.path()), before);
  const auto missing = store::DirectoryStore("/proc/self").probe();
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("creating"), std::string::npos);
}

TEST_F(Store, NotesTheProductOfEachNode) {
  EXPECT_EQ(store_.node_product("node-1").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(store_.note_node_product("node-1", "NVIDIA-H100-80GB-HBM3"));
  ASSERT_TRUE(store_.note_node_product("node-2.example.com", "cpu-amd64"));
  EXPECT_EQ(*store_.node_product("node-1"), "NVIDIA-H100-80GB-HBM3");
  ASSERT_TRUE(store_.note_node_product("node-1", "NVIDIA-A100-SXM4-80GB"));
  EXPECT_EQ(*store_.node_product("node-1"), "NVIDIA-A100-SXM4-80GB");
  EXPECT_EQ(*store_.node_product("node-2.example.com"), "cpu-amd64");
  for (const char* node : {"", "..", "../x", "a/b", "UPPER"})
    EXPECT_EQ(store_.note_node_product(node, "p").error().code, ErrorCode::kInvalid) << node;
  EXPECT_EQ(store_.note_node_product("n", "").error().code, ErrorCode::kInvalid);
}

IndexEntry entry(const std::string& name, int generation, char digit) {
  return {"sha256:" + std::string(64, digit),
          100,
          {{kAnnotationName, name}, {kAnnotationGeneration, std::to_string(generation)}}};
}

TEST_F(Store, IndexKeepsTheNewestOfEachArchive) {
  ASSERT_TRUE(store_.update_index(entry("b", 1, '1')));
  ASSERT_TRUE(store_.update_index(entry("a", 5, '2')));
  ASSERT_TRUE(store_.update_index(entry("b", 2, '3')));
  ASSERT_TRUE(store_.update_index(entry("a", 4, '4')));  // late
  auto index = store_.read_index().value();
  ASSERT_EQ(index.entries.size(), 2U);
  EXPECT_EQ(index.entries[0].digest, entry("a", 5, '2').digest);
  EXPECT_EQ(index.entries[1].digest, entry("b", 2, '3').digest);
  EXPECT_EQ(index.entries[1].generation(), 2U);

  ASSERT_TRUE(store_.write_index({entry("c", 1, '1'), entry("c", 10, '2'), entry("c", 9, '3')}));
  index = store_.read_index().value();
  ASSERT_EQ(index.entries.size(), 1U);
  EXPECT_EQ(index.entries[0].generation(), 10U);
  EXPECT_FALSE(store_.update_index({"sha256:" + std::string(64, '1'), 1, {}}));
}

TEST_F(Store, IndexFollowsAnArchiveThatWasDeletedAndSavedAnew) {
  const auto saved = [](uint64_t generation, char digit, const std::string& time) {
    IndexEntry made = entry("a", generation, digit);
    made.annotations[kAnnotationSavedAt] = time;
    return made;
  };
  ASSERT_TRUE(store_.update_index(saved(7, '1', "2026-01-01T00:00:00Z")));
  ASSERT_TRUE(store_.update_index(saved(1, '2', "2026-01-02T00:00:00Z")));
  EXPECT_EQ(store_.read_index()->entries.at(0).digest, entry("a", 1, '2').digest);
  ASSERT_TRUE(store_.update_index(saved(2, '3', "2026-01-03T00:00:00Z")));
  ASSERT_TRUE(store_.update_index(saved(1, '2', "2026-01-02T00:00:00Z")));  // late
  EXPECT_EQ(store_.read_index()->entries.at(0).digest, entry("a", 2, '3').digest);
}

TEST_F(Store, IndexReadsWhateverItFinds) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"manifests\":7}"),
        std::string(50'000, '['), std::string(R"({"manifests":[{"digest":"../x","size":1}]})"),
        std::string(R"({"manifests":[1,null,{"size":-1}]})")}) {
    write_file(store_.path() + "/index.json", text);
    const auto index = store_.read_index().value();
    EXPECT_TRUE(index.entries.empty()) << text.substr(0, 50);
    EXPECT_FALSE(index.problems.empty()) << text.substr(0, 50);
  }
  fs::remove(store_.path() + "/index.json");
  EXPECT_EQ(store_.read_index()->problems.size(), 1U);
  EXPECT_TRUE(store_.update_index(entry("a", 1, '1'))) << "the index can be made again";
  EXPECT_EQ(store_.read_index()->entries.size(), 1U);
  write_file(store_.path() + "/index.json",
             R"({"manifests":[{"digest":"bad"},{"digest":"sha256:)" + std::string(64, 'a') +
                 R"(","size":3,"annotations":{"x":1,"dev.compilecache.generation":"99x"}}]})");
  const auto index = store_.read_index().value();
  ASSERT_EQ(index.entries.size(), 1U);
  EXPECT_EQ(index.entries[0].generation(), 0U);
  EXPECT_EQ(index.problems.size(), 1U);
}

// Everybody who may write to the volume can write such an index.
TEST_F(Store, AnIndexOfVeryManyValuesIsAnEmptyOneWithShortProblems) {
  const auto many = [](const std::string& piece, size_t count) {
    std::string text = R"({"manifests":[)";
    for (size_t i = 0; i < count; ++i) text += piece;
    return text + "0]}";
  };
  for (const std::string& text :
       {many("0,", (8U << 20) / 2 - 20), many("{},", 30'000), many("\"\xff\",", 1),
        many(R"({"annotations":{"a":"","b":""}},)", 200'000), std::string(7 << 20, 'x')}) {
    write_file(store_.path() + "/index.json", text);
    const auto index = store_.read_index().value();
    EXPECT_TRUE(index.entries.empty()) << text.substr(0, 50);
    EXPECT_EQ(index.problems.size(), 1U) << text.substr(0, 50);
    EXPECT_LT(index.problems.front().size(), 500U) << text.substr(0, 50);
  }
  ASSERT_TRUE(store_.update_index(entry("a", 1, '1'))) << "it is replaced";
  EXPECT_EQ(store_.read_index()->entries.size(), 1U);
}

TEST_F(Store, ListsBlobsAndNothingElse) {
  const auto saved = save({{"a", {noise(1000, 60), false}}});
  write_file(store_.path() + "/blobs/sha256/0123.incomplete", "x");
  write_file(store_.path() + "/blobs/sha256/.nfs000001", "x");
  fs::create_directory(store_.path() + "/blobs/sha256/" + std::string(64, 'd'));
  const auto blobs = store_.list();
  ASSERT_TRUE(blobs);
  ASSERT_EQ(blobs->size(), 3U);
  uint64_t total = 0;
  for (const StoredBlob& blob : *blobs) {
    EXPECT_TRUE(is_digest(blob.digest));
    EXPECT_LT(now() - blob.modified, seconds(60));
    total += blob.size;
  }
  EXPECT_EQ(total, saved.archive.compressed_bytes);
}

TEST_F(Store, RemovesOnlyOldLeftovers) {
  const auto saved = save({{"a", {"a", false}}});
  const std::vector<std::string> old = {"/blobs/sha256/1.incomplete", "/2.incomplete",
                                        "/nodes/3.incomplete"};
  for (const std::string& name : old) {
    write_file(store_.path() + name, "12345");
    make_old(store_.path() + name, seconds(100));
  }
  write_file(store_.path() + "/blobs/sha256/young.incomplete", "12345");
  write_file(store_.path() + "/blobs/sha256/.nfs0001", "12345");
  make_old(store_.path() + "/blobs/sha256/.nfs0001", seconds(1000));
  const auto counts = store_.remove_incomplete(seconds(60), now());
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->removed, 3U);
  EXPECT_EQ(counts->freed_bytes, 15U);
  EXPECT_TRUE(counts->failures.empty());
  for (const std::string& name : old) EXPECT_FALSE(fs::exists(store_.path() + name)) << name;
  EXPECT_TRUE(fs::exists(store_.path() + "/blobs/sha256/young.incomplete"));
  EXPECT_TRUE(fs::exists(store_.path() + "/blobs/sha256/.nfs0001"));
  EXPECT_EQ(load(saved.archive.manifest).size(), 1U);
}

TEST_F(Store, DeletesTheBlobsItIsToldTo) {
  const auto first = save({{"a", {noise(1000, 61), false}}});
  const auto second = save({{"b", {noise(2000, 62), false}}});
  const std::vector<std::string> blobs = first.archive.blobs();
  EXPECT_EQ(store_.remove({blobs[0], "sha256:../../compilecache.json"}).error().code,
            ErrorCode::kInvalid);
  EXPECT_TRUE(fs::exists(store_.blob_path(blobs[0]))) << "nothing is deleted on bad input";
  auto doomed = blobs;
  doomed.push_back("sha256:" + std::string(64, '9'));
  const auto counts = store_.remove(doomed);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 3U);
  EXPECT_EQ(counts->missing, 1U);
  EXPECT_EQ(counts->freed_bytes, first.archive.compressed_bytes);
  EXPECT_EQ(try_load(first.archive.manifest, temp_.path("x")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(load(second.archive.manifest).size(), 1U);
}

}  // namespace
}  // namespace compilecache::archive::test
