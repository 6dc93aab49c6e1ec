#include <filesystem>
#include <random>

#include "archive/format.hpp"
#include "archive/fs.hpp"
#include "archive_fixture.hpp"

// Saves unite: each adds what its parent lacks and takes nothing away.

namespace compilecache::archive::test {
namespace {

using Union = ArchiveTest;

TEST_F(Union, ADeltaHoldsOnlyWhatIsNew) {
  const std::string big = noise(2 << 20, 10);
  const auto first = save({{"a", {big, false}}, {"b", {"b", false}}});
  const auto second =
      save({{"a", {big, false}}, {"c", {noise(1000, 11), true}}}, first.archive.manifest);
  EXPECT_FALSE(second.nothing_new);
  EXPECT_EQ(second.added_files, 1U);
  EXPECT_EQ(second.added_plain_bytes, 1000U);
  EXPECT_LT(second.written_bytes, 10'000U);
  ASSERT_EQ(second.archive.layers.size(), 2U);
  EXPECT_EQ(second.archive.layers[0], first.archive.layers[0]);
  EXPECT_EQ(load(second.archive.manifest),
            (Tree{{"a", {big, false}}, {"b", {"b", false}}, {"c", {noise(1000, 11), true}}}));
  EXPECT_EQ(load(first.archive.manifest).size(), 2U) << "the parent is as it was";
}

TEST_F(Union, NothingNewWritesNothing) {
  const Tree tree = {{"a", {noise(5000, 12), false}}, {"b", {"", false}}};
  const auto first = save(tree);
  const auto before = names_below(store_.path());
  const auto again = save(tree, first.archive.manifest);
  EXPECT_TRUE(again.nothing_new);
  EXPECT_EQ(again.archive.manifest, first.archive.manifest);
  EXPECT_EQ(again.archive.files, 2U);
  EXPECT_EQ(names_below(store_.path()).size(), before.size());
  EXPECT_TRUE(save({}).nothing_new);
}

TEST_F(Union, ChangedContentUnderTheSameNameWins) {
  const auto first =
      save({{"a", {"old", false}}, {"s", {"same size 1", false}}, {"k", {"k", false}}});
  const auto second =
      save({{"a", {"newer", false}}, {"s", {"same size 2", false}}}, first.archive.manifest);
  EXPECT_EQ(second.added_files, 2U);
  EXPECT_EQ(load(second.archive.manifest),
            (Tree{{"a", {"newer", false}}, {"s", {"same size 2", false}}, {"k", {"k", false}}}));
}

TEST_F(Union, ChangedContentIsSeenWhateverSizeAndTimesSay) {
  const Tree before = {{"vllm_compile_cache.py", {noise(50'000, 17), false}},
                       {"pad", {noise(90'000, 18), false}}};
  const auto first = save(before);
  const std::string root = temp_.path("again");
  Tree after = before;
  after["vllm_compile_cache.py"].bytes[25'000] ^= 1;
  write_tree(root, after);
  for (const auto& [path, file] : after) {
    std::filesystem::last_write_time(
        root + "/" + path, std::filesystem::last_write_time(temp_.path("source-1/" + path)));
  }
  WriteRequest request;
  request.parent = first.archive.manifest;
  request.files = sources(root);
  const auto second = write_archive(store_, request);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->added_files, 1U);
  EXPECT_EQ(load(second->archive.manifest), after);
}

TEST_F(Union, WhatOnePodLacksStaysForTheOthers) {
  const Tree mine = {{"mine", {"1", false}}, {"ours", {"2", false}}, {"d/e", {"3", true}}};
  std::string head = save(mine).archive.manifest;
  // A pod that deleted all but one, and one that never had any.
  head = save({{"ours", {"2", false}}, {"theirs", {"4", false}}}, head).archive.manifest;
  head = save({{"another", {"5", false}}}, head).archive.manifest;
  Tree all = mine;
  all["theirs"] = {"4", false};
  all["another"] = {"5", false};
  EXPECT_EQ(load(head), all);
  EXPECT_TRUE(save({}, head).nothing_new);
}

TEST_F(Union, JustUnderHalfSupersededIsStillADelta) {
  const auto first = save({{"a", {noise(60'000, 27), false}}, {"b", {noise(70'000, 28), false}}});
  const auto second = save({{"a", {noise(60'000, 29), false}}}, first.archive.manifest);
  EXPECT_FALSE(second.compacted) << "60 of 190 kB are superseded";
  EXPECT_EQ(second.archive.layers.size(), 2U);
  const auto third = save({{"b", {noise(70'000, 30), false}}}, second.archive.manifest);
  EXPECT_FALSE(third.compacted) << "130 of 260 kB are: half is not more than half";
  const auto fourth = save({{"a", {noise(50'000, 31), false}}}, third.archive.manifest);
  EXPECT_TRUE(fourth.compacted);
  EXPECT_EQ(load(first.archive.manifest).at("a").bytes, noise(60'000, 27))
      << "who loads the old head is not disturbed";
  EXPECT_EQ(load(fourth.archive.manifest),
            (Tree{{"a", {noise(50'000, 31), false}}, {"b", {noise(70'000, 30), false}}}));
}

TEST_F(Union, AChangedModeIsAChange) {
  const auto first = save({{"a", {"tool", false}}});
  const auto second = save({{"a", {"tool", true}}}, first.archive.manifest);
  EXPECT_FALSE(second.nothing_new);
  EXPECT_EQ(load(second.archive.manifest), (Tree{{"a", {"tool", true}}}));
}

TEST_F(Union, EqualFilesAreStoredOnce) {
  const std::string big = noise(1 << 20, 13);
  const auto saved = save({{"a", {big, false}}, {"b/c", {big, false}}, {"d", {big, false}}});
  EXPECT_LT(saved.archive.compressed_bytes, big.size() + 10'000);
  EXPECT_EQ(saved.archive.plain_bytes, 3 * big.size());
  EXPECT_EQ(load(saved.archive.manifest),
            (Tree{{"a", {big, false}}, {"b/c", {big, false}}, {"d", {big, false}}}));
}

TEST_F(Union, EqualFilesOfDifferentModesKeepTheirModes) {
  const std::string big = noise(1 << 16, 14);
  const Tree tree = {{"a", {big, false}}, {"b", {big, true}}};
  EXPECT_EQ(load(save(tree).archive.manifest), tree);
}

TEST_F(Union, ACopyOfWhatAnEarlierLayerHasNeedsNoLayer) {
  const std::string big = noise(1 << 20, 15);
  const auto first = save({{"a", {big, false}}});
  const auto second = save({{"copy/of/a", {big, false}}}, first.archive.manifest);
  EXPECT_FALSE(second.nothing_new);
  EXPECT_EQ(second.archive.layers, first.archive.layers);
  EXPECT_LT(second.written_bytes, 5'000U);
  EXPECT_EQ(load(second.archive.manifest),
            (Tree{{"a", {big, false}}, {"copy/of/a", {big, false}}}));
}

TEST_F(Union, ContentThatComesBackIsFoundAgain) {
  const auto first = save({{"a", {"one", false}}, {"pad", {noise(5000, 16), false}}});
  const auto second = save({{"b", {"one", false}}}, first.archive.manifest);
  const auto third = save({{"a", {"two", false}}}, second.archive.manifest);
  const auto fourth = save({{"a", {"one", false}}}, third.archive.manifest);
  EXPECT_EQ(
      load(fourth.archive.manifest),
      (Tree{{"a", {"one", false}}, {"b", {"one", false}}, {"pad", {noise(5000, 16), false}}}));
}

TEST_F(Union, TheFifthLayerBecomesOneFullLayer) {
  Tree all;
  std::string parent;
  for (int i = 1; i <= 5; ++i) {
    const Tree added = {{"d/file" + std::to_string(i), {noise(20'000 * i, i), i % 2 == 0}},
                        {"copy" + std::to_string(i), {noise(20'000, 1), false}}};
    all.insert(added.begin(), added.end());
    const auto saved = save(added, parent);
    EXPECT_EQ(saved.compacted, i == 5);
    EXPECT_EQ(saved.archive.layers.size(), i == 5 ? 1U : static_cast<size_t>(i));
    EXPECT_EQ(load(saved.archive.manifest), all) << i;
    parent = saved.archive.manifest;
  }
  const auto verified = verify(store_, parent);
  ASSERT_TRUE(verified) << verified.error().message;
  // 20, 40, … 100 kB of noise once each, the copies of the first for nothing.
  EXPECT_LT(verified->compressed_bytes, 310'000U);
}

// The ranks of a group save one after another, each a little, on top of a large archive.
TEST_F(Union, ARoundOfSmallSavesDoesNotWriteTheLargeLayerAnew) {
  Tree all{{"base", {noise(2'000'000, 100), false}}};
  const auto base = save(all);
  std::string parent = base.archive.manifest;
  constexpr uint64_t kEach = 20'000;
  constexpr int kRanks = 16;
  uint64_t written = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Tree added{{"rank_" + std::to_string(rank) + "/model", {noise(kEach, rank), false}}};
    all.insert(added.begin(), added.end());
    const auto saved = save(added, parent);
    EXPECT_EQ(saved.archive.layers[0], base.archive.layers[0]) << rank;
    EXPECT_LE(saved.archive.layers.size(), kMaxLayers);
    EXPECT_EQ(load(saved.archive.manifest), all) << rank;
    written += saved.written_bytes;
    parent = saved.archive.manifest;
  }
  EXPECT_LT(written, 3 * kRanks * kEach) << "each byte is written not three times on average";
  EXPECT_TRUE(verify(store_, parent));
}

// Sizes at random: the bound of layers holds, nothing is lost, and no byte is written again more
// often than the archive doubles, but for the three small layers at the end.
TEST_F(Union, HoweverLargeSavesAreLittleIsWrittenAnew) {
  std::mt19937 random(3);
  Tree all;
  std::string parent;
  uint64_t written = 0;
  uint64_t added_bytes = 0;
  for (int i = 0; i < 60; ++i) {
    const size_t size = size_t{100} << (random() % 10);
    const Tree added{{"f" + std::to_string(i), {noise(size, i), false}}};
    all.insert(added.begin(), added.end());
    const auto saved = save(added, parent);
    ASSERT_LE(saved.archive.layers.size(), kMaxLayers);
    written += saved.written_bytes;
    added_bytes += size;
    parent = saved.archive.manifest;
  }
  EXPECT_EQ(load(parent), all);
  EXPECT_LT(written, 8 * added_bytes);
}

TEST_F(Union, LayersOfWhichNothingIsWantedAreNotRead) {
  const auto first = save({{"rank_0/model", {noise(5'000, 1), false}}});
  const auto second =
      save({{"rank_1/model", {noise(5'000, 2), false}}, {"rank_1/copy", {noise(5'000, 1), false}}},
           first.archive.manifest);
  const auto third = save({{"rank_2/model", {noise(5'000, 3), false}}}, second.archive.manifest);
  std::filesystem::remove(store_.blob_path(third.archive.layers[2]));
  ExtractOptions options;
  options.roots = {{"torch", temp_.path("into")}};
  options.wanted = [](const std::string& path) { return path.find("rank_1/") != path.npos; };
  size_t listed = 0;
  options.before_creating = [&](const Manifest&, const Config& contents) -> Status {
    listed = contents.files.size();
    return {};
  };
  const auto loaded = extract(store_, third.archive.manifest, options);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->files, 2U);
  EXPECT_EQ(loaded->unwanted_files, 2U);
  EXPECT_EQ(listed, 2U);
  EXPECT_EQ(read_tree(temp_.path("into")), (Tree{{"rank_1/copy", {noise(5'000, 1), false}},
                                                 {"rank_1/model", {noise(5'000, 2), false}}}));
  options.wanted = {};
  EXPECT_FALSE(extract(store_, third.archive.manifest, options)) << "a layer is gone";
}

// For example files that an earlier release packed before they were known to be secret.
TEST_F(Union, WhatIsUnwantedLeavesTheArchiveWithItsBytes) {
  const std::string secret = "VLLM_API_KEY=" + noise(1000, 30);
  const auto first = save({{"a", {noise(5'000, 31), false}},
                           {"key_factors.json", {secret, false}},
                           {"same", {secret, false}}});
  const auto second = save({{"b", {noise(5'000, 32), false}}}, first.archive.manifest);
  WriteRequest request = save_request({}, second.archive.manifest);
  request.unwanted = [](const std::string& path) { return path.ends_with("key_factors.json"); };
  const auto saved = write_archive(store_, std::move(request));
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_FALSE(saved->nothing_new);
  EXPECT_EQ(load(saved->archive.manifest), (Tree{{"a", {noise(5'000, 31), false}},
                                                 {"b", {noise(5'000, 32), false}},
                                                 {"same", {secret, false}}}));
  for (const std::string& layer : saved->archive.layers) {
    const std::string names = run("zstd -dcf < " + store_.blob_path(layer) + " | tar -t");
    EXPECT_EQ(names.find("key_factors.json"), std::string::npos) << names;
  }
  ASSERT_EQ(saved->archive.layers.size(), 1U);
  WriteRequest again = save_request({}, saved->archive.manifest);
  again.unwanted = [](const std::string& path) { return path.ends_with("key_factors.json"); };
  EXPECT_TRUE(write_archive(store_, std::move(again))->nothing_new);
}

TEST_F(Union, AFullLayerIsWrittenWhenHalfIsSuperseded) {
  const auto first = save({{"a", {noise(100'000, 20), false}}, {"b", {noise(10'000, 21), false}}});
  const auto second = save({{"a", {noise(60'000, 22), false}}}, first.archive.manifest);
  EXPECT_TRUE(second.compacted);
  EXPECT_EQ(second.archive.layers.size(), 1U);
  EXPECT_LT(second.archive.compressed_bytes, 80'000U);
  EXPECT_EQ(load(second.archive.manifest),
            (Tree{{"a", {noise(60'000, 22), false}}, {"b", {noise(10'000, 21), false}}}));
}

TEST_F(Union, CompactionNeverCarriesDamageOn) {
  const auto first = save({{"a", {noise(100'000, 23), false}}, {"b", {noise(10'000, 24), false}}});
  const std::string layer = store_.blob_path(first.archive.layers[0]);
  std::string bytes = read_file(layer);
  bytes[50'000] = static_cast<char>(bytes[50'000] ^ 1);
  write_file(layer, bytes);
  write_tree(temp_.path("new"), {{"a", {noise(60'000, 25), false}}});
  WriteRequest request;
  request.parent = first.archive.manifest;
  request.files = sources(temp_.path("new"));
  const auto second = write_archive(store_, request);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kCorrupt) << second.error().message;
}

TEST_F(Union, AFileWhereTheParentHasADirectoryAndTheOtherWayRound) {
  const auto first =
      save({{"x/y", {"under", false}}, {"z", {"file", false}}, {"k", {noise(999, 26), false}}});
  const auto second =
      save({{"x", {"now a file", false}}, {"z/w", {"now under", false}}}, first.archive.manifest);
  EXPECT_EQ(load(second.archive.manifest), (Tree{{"x", {"now a file", false}},
                                                 {"z/w", {"now under", false}},
                                                 {"k", {noise(999, 26), false}}}));
}

TEST_F(Union, AMissingParentIsNotFound) {
  const auto first = save({{"a", {"a", false}}});
  write_tree(temp_.path("new"), {{"b", {"b", false}}});
  WriteRequest request;
  request.files = sources(temp_.path("new"));
  for (const std::string& blob : first.archive.blobs()) {
    request.parent = first.archive.manifest;
    std::filesystem::rename(store_.blob_path(blob), temp_.path("away"));
    const auto second = write_archive(store_, request);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kNotFound) << second.error().message;
    std::filesystem::rename(temp_.path("away"), store_.blob_path(blob));
  }
}

}  // namespace
}  // namespace compilecache::archive::test
