#include "store/access/copy.hpp"

#include "archive/format.hpp"
#include "base/clock.hpp"
#include "store/checked_blob.hpp"
#include "store/directory/directory_store.hpp"
#include "store/memory/memory_store.hpp"
#include "store/offline_index.hpp"
#include "tests/unit/store/registry_fixture.hpp"

// Archives are copied between stores of all kinds.

namespace compilecache::store::test {
namespace {

using ::testing::HasSubstr;

class CopyTest : public RegistryTest {
 protected:
  CopyTest() {
    EXPECT_TRUE(directory_.prepare({}, false));
    EXPECT_TRUE(memory_.prepare({}, false));
  }

  // Two layers, so that a layer can be there already.
  std::pair<std::string, std::string> save_two(Store& store) {
    const auto first = save(store, some_tree());
    EXPECT_TRUE(first) << first.error().message;
    const auto second =
        save(store, {{"d", {archive::test::noise(300'000, 9), false}}}, first->archive.manifest);
    EXPECT_TRUE(second) << second.error().message;
    return {first->archive.manifest, second->archive.manifest};
  }
  // Copies, and loads the copy.
  CopyReport expect_copied(Store& from, Store& to, const std::string& digest) {
    const auto copied = copy_archive(from, to, digest);
    EXPECT_TRUE(copied) << copied.error().message;
    if (!copied) return {};
    EXPECT_EQ(copied->archive.manifest, digest);
    const auto expected = load(from, digest);
    const auto loaded = load(to, digest);
    EXPECT_TRUE(expected && loaded);
    if (expected && loaded) {
      EXPECT_EQ(*loaded, *expected);
    }
    return *copied;
  }
  static std::string text_of(const Store& store, const std::string& digest) {
    return archive::read_blob(store, {archive::kLayerMediaType, digest, 0}, 1 << 20).value();
  }
  SystemClock clock_;
  DirectoryStore directory_{temp_.path("store")};
  MemoryStore memory_{clock_};
  RegistryStore in_registry_{options()};
};

TEST_F(CopyTest, BetweenStoresOfAllKinds) {
  const auto [first, second] = save_two(directory_);
  const CopyReport to_memory = expect_copied(directory_, memory_, second);
  EXPECT_EQ(to_memory.copied_blobs, 4U);
  EXPECT_EQ(to_memory.copied_bytes, to_memory.archive.compressed_bytes);
  EXPECT_GT(to_memory.newest_file_ns, 0);
  EXPECT_EQ(to_memory.annotations.at(archive::kAnnotationGeneration), "2");
  expect_copied(memory_, in_registry_, second);
  EXPECT_EQ(registry_.tags().at("g2-" + second.substr(7, 12)), second);

  DirectoryStore back(temp_.path("back"));
  ASSERT_TRUE(back.prepare({}, false));
  expect_copied(in_registry_, back, second);
  // Blob for blob.
  const auto there = directory_.list(), here = back.list();
  ASSERT_TRUE(there && here);
  for (const auto& blob : *here)
    EXPECT_EQ(text_of(back, blob.digest), text_of(directory_, blob.digest));
  EXPECT_EQ(here->size(), 4U) << "and nothing else";
}

TEST_F(CopyTest, OnlyWhatIsNotThere) {
  const auto [first, second] = save_two(directory_);
  expect_copied(directory_, in_registry_, first);
  const CopyReport copied = expect_copied(directory_, in_registry_, second);
  EXPECT_EQ(copied.copied_blobs, 3U) << "its first layer was there";
  registry_.forget_calls();
  expect_copied(directory_, in_registry_, second);
  for (const std::string& line : registry_.lines())
    EXPECT_THAT(line, ::testing::Not(HasSubstr("upload")));
}

TEST_F(CopyTest, ABlobThatIsThereAndWrongIsWrittenAnew) {
  const auto [first, second] = save_two(directory_);
  expect_copied(directory_, memory_, second);
  const auto manifest = archive::read_manifest(directory_, second);
  const std::string layer = manifest->layers[0].digest;
  std::string content = text_of(memory_, layer);
  content[content.size() / 2] ^= 1;
  memory_.put(layer, content);
  EXPECT_EQ(expect_copied(directory_, memory_, second).copied_blobs, 2U) << "with the manifest";
}

TEST_F(CopyTest, NothingThatIsNotWholeGetsAManifest) {
  const auto [first, second] = save_two(memory_);
  const auto manifest = archive::read_manifest(memory_, second);
  ASSERT_TRUE(manifest);
  std::vector<std::string> blobs{manifest->config.digest};
  for (const auto& layer : manifest->layers) blobs.push_back(layer.digest);
  for (const std::string& blob : blobs) {
    const std::string whole = *memory_.take(blob);
    std::string wrong = whole, longer = whole + "x", shorter = whole;
    wrong[wrong.size() - 20] ^= 1;
    shorter.pop_back();
    for (const auto& content :
         std::vector<std::optional<std::string>>{std::nullopt, wrong, longer, shorter}) {
      if (content) memory_.put(blob, *content);
      DirectoryStore target(temp_.path("target-" + std::to_string(++counter_)));
      ASSERT_TRUE(target.prepare({}, false));
      registry_.clear();
      for (Store* to : std::initializer_list<Store*>{&target, &in_registry_}) {
        const auto copied = copy_archive(memory_, *to, second);
        ASSERT_FALSE(copied);
        EXPECT_EQ(copied.error().code, content ? ErrorCode::kCorrupt : ErrorCode::kNotFound)
            << copied.error().message;
        EXPECT_EQ(copied.error().digest, blob);
        EXPECT_EQ(to->size_of(second).error().code, ErrorCode::kNotFound);
      }
      const auto came = target.list();
      ASSERT_TRUE(came);
      for (const auto& stored : *came) {
        EXPECT_TRUE(
            check_blob({"", stored.digest, stored.size}, **target.open({"", stored.digest, 0})))
            << "what came so far is right";
      }
      EXPECT_TRUE(registry_.manifests().empty());
    }
    memory_.put(blob, whole);
  }
  expect_copied(memory_, in_registry_, second);
}

// Fails at each call, and succeeds at the next attempt.
TEST_F(CopyTest, ARegistryThatFailsAnywhereLeavesNothingThatCannotBeLoaded) {
  const auto [first, second] = save_two(directory_);
  RegistryOptions once = options();
  once.retries.attempts = 1;
  RegistryStore target(once);
  for (int call = 1;; ++call) {
    registry_.clear();
    registry_.forget_calls();
    registry_.on_call(call, FakeRegistry::cut_before());
    const auto copied = copy_archive(directory_, target, second);
    const bool reached = registry_.calls() >= call;
    registry_.forget_calls();
    if (!copied) {
      EXPECT_NE(copied.error().code, ErrorCode::kCorrupt) << copied.error().message;
      EXPECT_NE(copied.error().code, ErrorCode::kNotFound) << copied.error().message;
      if (registry_.manifests().contains(second)) {
        EXPECT_TRUE(load(target, second));
      }
    }
    expect_copied(directory_, target, second);
    if (!reached) break;
    ASSERT_LT(call, 100);
  }
}

TEST_F(CopyTest, TheSourceMayFailAnywhereToo) {
  const auto [first, second] = save_two(in_registry_);
  for (int call = 1;; ++call) {
    registry_.forget_calls();
    registry_.on_call(call, FakeRegistry::cut_body(7));
    DirectoryStore target(temp_.path("target-" + std::to_string(++counter_)));
    ASSERT_TRUE(target.prepare({}, false));
    const auto copied = copy_archive(in_registry_, target, second);
    const bool reached = registry_.calls() >= call;
    registry_.forget_calls();
    EXPECT_EQ(copied.has_value(), target.size_of(second).has_value());
    expect_copied(in_registry_, target, second);
    if (!reached) break;
    ASSERT_LT(call, 100);
  }
}

TEST_F(CopyTest, ALayerIsNeverInMemoryAsAWhole) {
  const auto saved = save(directory_, {{"a", {archive::test::noise(8'000'000, 3), false}}});
  ASSERT_TRUE(saved);
  class Reader : public archive::BlobReader {
   public:
    explicit Reader(std::unique_ptr<archive::BlobReader> reader) : reader_(std::move(reader)) {}
    [[nodiscard]] uint64_t size() const override { return reader_->size(); }
    [[nodiscard]] Result<size_t> read_at(std::span<uint8_t> bytes, uint64_t at) const override {
      most = std::max(most, bytes.size());
      return reader_->read_at(bytes, at);
    }
    mutable size_t most = 0;

   private:
    std::unique_ptr<archive::BlobReader> reader_;
  };
  const auto manifest = archive::read_manifest(directory_, saved->archive.manifest);
  const auto& layer = manifest->layers[0];
  for (Store* to : std::initializer_list<Store*>{&memory_, &in_registry_}) {
    Reader reader(std::move(*directory_.open(layer)));
    const auto received = to->receive(layer, reader);
    ASSERT_TRUE(received) << received.error().message;
    EXPECT_GT(reader.most, 0U);
    EXPECT_LE(reader.most, 1U << 20);
  }
}

// Blobs that no manifest names yet are what a collection deletes.
TEST_F(CopyTest, ARegistryThatIsCollectedBeforeTheManifestIsThereGetsTheBlobsAgain) {
  const std::string archive = save_two(directory_).second;
  int collections = 0;
  registry_.on_every_call([&](const auto& call) -> std::optional<FakeRegistry::Fault> {
    const bool manifest =
        call.method == "PUT" && call.target.find("/manifests/") != call.target.npos;
    if (!manifest || ++collections > 2) return std::nullopt;
    return [&](const auto& usual) {
      registry_.clear_now();
      return usual();
    };
  });
  expect_copied(directory_, in_registry_, archive);

  // One that never keeps them has not lost the archive for good: a later copy may succeed.
  registry_.clear();
  registry_.on_every_call([&](const auto& call) -> std::optional<FakeRegistry::Fault> {
    if (call.method != "PUT" || call.target.find("/manifests/") == call.target.npos)
      return std::nullopt;
    return [&](const auto& usual) {
      registry_.clear_now();
      return usual();
    };
  });
  const auto copied = copy_archive(directory_, in_registry_, archive);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, ErrorCode::kUnavailable) << copied.error().message;
}

TEST_F(CopyTest, ARegistryNamesTheNewestSaveOfEachArchive) {
  const auto put = [&](const std::string& name, const std::string& generation, uint64_t seed) {
    auto wanted = request(some_tree(seed));
    wanted.annotations = {{archive::kAnnotationName, name},
                          {archive::kAnnotationGeneration, generation},
                          {"dev.compilecache.key.GPUProduct", name}};
    const auto saved = archive::write_archive(in_registry_, wanted);
    EXPECT_TRUE(saved) << saved.error().message;
    return saved->archive.manifest;
  };
  put("a100", "9", 1);
  const std::string a100 = put("a100", "10", 2), h100 = put("h100", "1", 3);
  save(in_registry_, some_tree(4));  // one that has no name
  ASSERT_TRUE(in_registry_.upkeep()->prepare({"c", "n", "u"}, false));
  const Index found = archives_in(in_registry_).value();
  EXPECT_TRUE(found.problems.empty());
  ASSERT_EQ(found.entries.size(), 2U);
  EXPECT_EQ(found.entries[0].digest, a100);
  EXPECT_EQ(found.entries[0].generation(), 10U);
  EXPECT_EQ(found.entries[1].digest, h100);
  EXPECT_EQ(found.entries[1].annotations.at("dev.compilecache.key.GPUProduct"), "h100");
  registry_.clear();
  EXPECT_TRUE(archives_in(in_registry_)->entries.empty()) << "of a repository that is not there";
  registry_.on_every_call([](const auto&) { return FakeRegistry::status(403); });
  EXPECT_FALSE(archives_in(in_registry_));
}

}  // namespace
}  // namespace compilecache::store::test
