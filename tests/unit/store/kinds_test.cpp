#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "archive/format.hpp"
#include "base/sha256.hpp"
#include "tests/unit/store/places.hpp"

// The behaviour of every kind of store, with the same tests for all.

namespace compilecache::store::test {
namespace {

using archive::test::noise;

std::string digest_of(const std::string& content) { return "sha256:" + sha256_hex(content); }

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class EveryKind : public ::testing::TestWithParam<Kind> {
 protected:
  EveryKind() : place_(make_place(GetParam(), temp_.path())) {}

  void SetUp() override { ASSERT_TRUE(upkeep().prepare(owner_, false)); }

  Store& store() { return place_->store(); }
  Upkeep& upkeep() { return place_->upkeep(); }
  OfflineIndex& index() { return place_->index(); }

  Result<archive::WrittenBlob> put(const std::string& content,
                                   const std::vector<std::string>& rewrite = {}) {
    auto blob = store().create(archive::kLayerMediaType);
    if (!blob) return unexpected(blob.error());
    // Written in two pieces, as compressed bytes also come in pieces.
    const size_t half = content.size() / 2;
    for (const auto piece : {bytes_of(content).first(half), bytes_of(content).subspan(half)}) {
      if (auto written = (*blob)->write(piece); !written) return unexpected(written.error());
    }
    EXPECT_EQ((*blob)->size(), content.size());
    return (*blob)->commit(rewrite);
  }
  Result<std::unique_ptr<archive::BlobReader>> open(const std::string& digest) {
    return store().open({archive::kLayerMediaType, digest, 0});
  }
  std::vector<std::string> listed() {
    std::vector<std::string> digests;
    const auto blobs = upkeep().list();
    EXPECT_TRUE(blobs);
    for (const auto& blob : blobs.value_or(std::vector<StoredBlob>{}))
      digests.push_back(blob.digest);
    return digests;
  }

  archive::test::TempDir temp_;
  std::unique_ptr<Place> place_;
  const StoreOwner owner_{"cluster-1", "ml", "uid-1"};
};

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return name_of(kind.param); });

class WithSingleBlobs : public EveryKind {};

INSTANTIATE_TEST_SUITE_P(Kinds, WithSingleBlobs, ::testing::ValuesIn(kKindsWithSingleBlobs),
                         [](const auto& kind) { return name_of(kind.param); });

TEST_P(EveryKind, ABlobIsReadAsItWasWritten) {
  const std::string content = noise(300'000, 1);
  const auto written = put(content);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(written->digest, digest_of(content));
  EXPECT_EQ(written->size, content.size());
  EXPECT_FALSE(written->existed);
  ASSERT_TRUE(store().sync());
  EXPECT_EQ(store().size_of(written->digest).value_or(0), content.size());

  const auto reader = open(written->digest);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ((*reader)->size(), content.size());
  (*reader)->expect_sequential_reads();
  std::vector<uint8_t> piece(1000);
  for (const uint64_t offset : {0, 1, 299'000, 299'001, 299'999, 300'000, 400'000}) {
    const auto count = (*reader)->read_at(piece, offset);
    ASSERT_TRUE(count);
    const std::string expected =
        offset < content.size() ? content.substr(offset, piece.size()) : std::string();
    EXPECT_EQ(std::string(piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*count)), expected)
        << offset;
  }
}

TEST_P(EveryKind, SeveralThreadsReadOneBlob) {
  const std::string content = noise(1 << 20, 2);
  const auto reader = open(put(content)->digest);
  ASSERT_TRUE(reader);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      std::vector<uint8_t> piece(4096);
      for (size_t at = first * piece.size(); at < content.size(); at += 4 * piece.size()) {
        const auto count = (*reader)->read_at(piece, at);
        if (!count ||
            content.compare(at, *count, reinterpret_cast<const char*>(piece.data()), *count) != 0)
          ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(EveryKind, ABlobIsKeptOnceUnlessItIsCondemned) {
  const auto first = put("content");
  ASSERT_TRUE(first);
  EXPECT_TRUE(put("content")->existed);
  EXPECT_FALSE(put("content", {first->digest})->existed) << "as it is about to be deleted";
  EXPECT_TRUE(put("content", {digest_of("another")})->existed);
  if (place_->has_single_blobs()) {
    EXPECT_EQ(listed(), std::vector<std::string>{first->digest});
  }
}

TEST_P(EveryKind, WhatIsNotWhatItsNameSaysIsReplaced) {
  const std::string content = noise(100'000, 3);
  const std::string digest = put(content)->digest;
  ASSERT_TRUE(store().sync());
  std::string flipped = content;
  flipped[50'000] = static_cast<char>(flipped[50'000] ^ 1);
  for (const std::string& damaged : {flipped, content + "more", content.substr(1), std::string()}) {
    if (damaged.size() == content.size() && !place_->has_single_blobs()) continue;
    place_->put(digest, damaged);
    EXPECT_FALSE(put(content)->existed);
    ASSERT_TRUE(store().sync());
    EXPECT_TRUE(place_->take(digest) == content);
    place_->put(digest, content);
  }
}

TEST_P(EveryKind, WhatIsNotCommittedLeavesNothing) {
  {
    auto blob = store().create(archive::kLayerMediaType);
    ASSERT_TRUE(blob);
    ASSERT_TRUE((*blob)->write(bytes_of("half")));
  }
  EXPECT_TRUE(listed().empty());
}

TEST_P(EveryKind, WhatIsMissingIsNotFoundAndNamed) {
  const std::string digest = digest_of("nothing");
  const auto opened = open(digest);
  const auto size = store().size_of(digest);
  ASSERT_FALSE(opened);
  ASSERT_FALSE(size);
  for (const Error& error : {opened.error(), size.error()}) {
    EXPECT_EQ(error.code, ErrorCode::kNotFound) << error.message;
    EXPECT_EQ(error.digest, digest) << error.message;
  }
  for (const std::string& name :
       {std::string("../../oci-layout"), digest.substr(7), digest + "0"}) {
    EXPECT_EQ(open(name).error().code, ErrorCode::kInvalid) << name;
    EXPECT_EQ(store().size_of(name).error().code, ErrorCode::kInvalid) << name;
  }
}

TEST_P(WithSingleBlobs, AStoreThatIsNotThereIsNeverALostParent) {
  const auto place = make_place(GetParam(), temp_.path("elsewhere"));
  const auto blob = place->store().create(archive::kLayerMediaType);
  ASSERT_FALSE(blob);
  EXPECT_EQ(blob.error().code, ErrorCode::kIo);
  EXPECT_EQ(place->store().trouble(blob.error(), Use::kWrite), Trouble::kMissing);
  EXPECT_FALSE(place->store().sync());
  EXPECT_EQ(place->store().open({"", digest_of("x"), 0}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(place->upkeep().owner().error().code, ErrorCode::kNotFound);
  EXPECT_EQ(place->upkeep().list().error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(place->upkeep().probe());
  EXPECT_EQ(place->index().read_index()->problems.size(), 1U);
  EXPECT_FALSE(place->index().write_index({}));
}

TEST_P(EveryKind, ItBelongsToWhoPreparedIt) {
  EXPECT_EQ(*upkeep().owner(), owner_);
  EXPECT_FALSE(upkeep().prepare(owner_, false)->created) << "the second time";
  const StoreOwner other{"cluster-2", "ml", "uid-1"};
  EXPECT_EQ(upkeep().prepare(other, false).error().code, ErrorCode::kConflict);
  EXPECT_EQ(*upkeep().owner(), owner_);
  const auto adopted = upkeep().prepare(other, true);
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->adopted_from, owner_);
  EXPECT_EQ(*upkeep().owner(), other);
}

TEST_P(WithSingleBlobs, WhatIsListedIsSortedAndWhatIsDeletedIsGone) {
  std::vector<std::string> all;
  for (const char* content : {"a", "b", "c", "d"}) all.push_back(put(content)->digest);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(listed(), all);
  const auto probe = upkeep().probe();
  ASSERT_TRUE(probe);
  const auto stored = upkeep().list();
  ASSERT_TRUE(stored);
  for (const auto& blob : *stored) {
    EXPECT_EQ(blob.size, 1U);
    EXPECT_LE(blob.modified, probe->now + std::chrono::seconds(1));
    EXPECT_GE(blob.modified, probe->now - std::chrono::minutes(5));
  }
  EXPECT_EQ(upkeep().remove({all[0], "sha256:../../index.json"}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(listed(), all) << "nothing was deleted";
  const auto counts = upkeep().remove({all[0], all[2], digest_of("nothing")});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 2U);
  EXPECT_EQ(counts->freed_bytes, 2U);
  EXPECT_EQ(counts->missing, 1U);
  EXPECT_TRUE(counts->failures.empty());
  EXPECT_EQ(listed(), (std::vector<std::string>{all[1], all[3]}));
}

TEST_P(WithSingleBlobs, AReaderGoesOnAfterItsBlobWasDeleted) {
  const std::string content = noise(10'000, 4);
  const std::string digest = put(content)->digest;
  const auto reader = open(digest);
  ASSERT_TRUE(reader);
  ASSERT_TRUE(upkeep().remove({digest}));
  std::vector<uint8_t> bytes(content.size());
  EXPECT_EQ((*reader)->read_at(bytes, 0).value_or(0), content.size());
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), content);
}

TEST_P(WithSingleBlobs, TheIndexKeepsTheNewestOfEachArchive) {
  const auto entry = [](const std::string& name, int generation) {
    return IndexEntry{digest_of(name + std::to_string(generation)),
                      100,
                      {{archive::kAnnotationName, name},
                       {archive::kAnnotationGeneration, std::to_string(generation)}}};
  };
  EXPECT_TRUE(index().read_index()->problems.empty());
  ASSERT_TRUE(index().update_index(entry("b", 1)));
  ASSERT_TRUE(index().update_index(entry("a", 5)));
  ASSERT_TRUE(index().update_index(entry("b", 2)));
  ASSERT_TRUE(index().update_index(entry("a", 4))) << "late";
  const Index now = index().read_index().value();
  ASSERT_EQ(now.entries.size(), 2U);
  EXPECT_EQ(now.entries[0].digest, entry("a", 5).digest);
  EXPECT_EQ(now.entries[1].digest, entry("b", 2).digest);
  EXPECT_EQ(index().update_index({digest_of("x"), 1, {}}).error().code, ErrorCode::kInvalid);
  ASSERT_TRUE(index().write_index({entry("c", 1)}));
  EXPECT_EQ(index().read_index()->entries.size(), 1U);
}

TEST_P(WithSingleBlobs, NodesHaveNotes) {
  EXPECT_EQ(index().node_product("node-1").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(index().note_node_product("node-1", "NVIDIA-H100"));
  ASSERT_TRUE(index().note_node_product("node-1", "NVIDIA-L4"));
  EXPECT_EQ(index().node_product("node-1").value_or(""), "NVIDIA-L4");
  for (const char* node : {"", "../x", "Node", ".a"}) {
    EXPECT_EQ(index().note_node_product(node, "p").error().code, ErrorCode::kInvalid) << node;
    EXPECT_EQ(index().node_product(node).error().code, ErrorCode::kInvalid) << node;
  }
  EXPECT_EQ(index().note_node_product("n", "two\nlines").error().code, ErrorCode::kInvalid);
}

// While a saver runs for weeks, somebody may clear the volume, and the next Job then makes the
// store again.
TEST(DirectoryStore, AFolderThatWasReplacedIsOpenedAnew) {
  const archive::test::TempDir temp;
  DirectoryStore store(temp.path("store"));
  ASSERT_TRUE(store.prepare({}, false));
  const auto put = [&](const std::string& content) {
    auto blob = store.create(archive::kLayerMediaType);
    EXPECT_TRUE(blob && (*blob)->write(bytes_of(content)));
    return (*blob)->commit({})->digest;
  };
  const std::string before = put("before");
  ASSERT_TRUE(store.open({"", before, 0}));
  std::filesystem::remove_all(store.path());
  EXPECT_EQ(store.open({"", before, 0}).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(store.prepare({}, false));
  const std::string after = put("after");
  EXPECT_TRUE(store.open({"", after, 0}));
  EXPECT_EQ(store.open({"", before, 0}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace compilecache::store::test
