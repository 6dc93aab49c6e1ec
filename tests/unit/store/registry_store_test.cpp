#include <algorithm>
#include <atomic>
#include <thread>

#include "archive/format.hpp"
#include "tests/unit/store/registry_fixture.hpp"

// A store in a registry that behaves well, and in one that has other manners.

namespace compilecache::store::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class RegistryStoreTest : public RegistryTest {
 protected:
  RegistryStore store_{options()};
};

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST_F(RegistryStoreTest, WhatIsSavedIsLoaded) {
  const auto saved = save(store_, some_tree());
  ASSERT_TRUE(saved) << saved.error().message;
  const auto loaded = load(store_, saved->archive.manifest);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(*loaded, some_tree());
  const Tree more = {{"d", {archive::test::noise(300'000, 9), false}}};
  const auto second = save(store_, more, saved->archive.manifest);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->archive.layers.size(), 2U);
  Tree both = some_tree();
  both.insert(more.begin(), more.end());
  EXPECT_EQ(*load(store_, second->archive.manifest), both);
}

TEST_F(RegistryStoreTest, ASaveGoesInItsOrder) {
  const auto saved = save(store_, some_tree());
  ASSERT_TRUE(saved) << saved.error().message;
  const std::string api = "/v2/ml/caches/llama/";
  const std::string layer = saved->archive.layers[0], config = saved->archive.config;
  const std::string manifest = saved->archive.manifest;
  const std::string tag = "g1-" + manifest.substr(7, 12);
  auto lines = registry_.lines();
  ASSERT_THAT(lines, ::testing::SizeIs(10));
  // Each blob is looked for, and pushed: the layer while the config is.
  const std::string upload = api + "blobs/uploads/";
  EXPECT_EQ(lines[0], "HEAD " + api + "blobs/" + layer);
  EXPECT_THAT(std::vector(lines.begin() + 1, lines.begin() + 6),
              ::testing::UnorderedElementsAre("HEAD " + api + "blobs/" + config, "POST " + upload,
                                              "POST " + upload, "PUT " + upload + "upload-1",
                                              "PUT " + upload + "upload-2"));
  // Then the manifest, once, and all is looked at.
  EXPECT_EQ(lines[6], "PUT " + api + "manifests/" + tag);
  EXPECT_EQ(lines[7], "HEAD " + api + "manifests/" + manifest);
  EXPECT_THAT(std::vector(lines.begin() + 8, lines.end()),
              ::testing::UnorderedElementsAre("HEAD " + api + "blobs/" + layer,
                                              "HEAD " + api + "blobs/" + config));
  EXPECT_EQ(registry_.tags(), (std::map<std::string, std::string>{{tag, manifest}}));
}

// The layer's upload is answered only after the config has arrived.
TEST_F(RegistryStoreTest, ALayerIsPushedWhileItsConfigIs) {
  std::atomic<bool> config_came{false}, together{false};
  registry_.on_every_call(
      [&](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Fault> {
        if (call.method != "PUT" || call.target.find("uploads") == std::string::npos) return {};
        if (call.body.size() < 100'000) {
          config_came = true;
          return {};
        }
        return [&](const std::function<FakeRegistry::Answer()>& usual) {
          auto answer = usual();
          answer.before = [&] {
            for (int i = 0; i < 5000 && !config_came; ++i)
              std::this_thread::sleep_for(std::chrono::milliseconds(2));
            together = config_came.load();
          };
          return answer;
        };
      });
  const Tree tree = {{"a", {archive::test::noise(150'000, 6), false}}};
  const auto saved = save(store_, tree);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_TRUE(together);
  EXPECT_EQ(load(store_, saved->archive.manifest).value_or(Tree{}), tree);
}

// Nothing names a layer whose push failed, and the save says why.
TEST_F(RegistryStoreTest, ALayerThatCannotBePushedFailsTheSave) {
  registry_.on_every_call([](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Fault> {
    if (call.method != "PUT" || call.body.size() < 100'000) return {};
    return FakeRegistry::status(403, R"({"errors":[{"code":"DENIED"}]})");
  });
  const Tree tree = {{"a", {archive::test::noise(150'000, 6), false}}};
  const auto refused = save(store_, tree);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("pushing blob sha256:"));
  EXPECT_TRUE(registry_.tags().empty());
  EXPECT_TRUE(registry_.manifests().empty());
  const auto lines = registry_.lines();
  EXPECT_TRUE(std::none_of(lines.begin(), lines.end(), [](const auto& line) {
    return line.find("PUT /v2/ml/caches/llama/manifests/") == 0;
  }));
  registry_.on_every_call(nullptr);
  registry_.clear();
  const Tree other = {{"b", {archive::test::noise(150'000, 7), false}}};
  EXPECT_TRUE(save(store_, other)) << "what failed once is forgotten, its config too";
}

TEST_F(RegistryStoreTest, ASyncTellsWhatCouldNotBePushed) {
  registry_.refuse([](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Answer> {
    if (call.method == "HEAD") return {};
    return FakeRegistry::Answer{.status = 403};
  });
  const auto layer = store_.create(archive::kLayerMediaType);
  ASSERT_TRUE(layer && (*layer)->write(bytes_of("a layer")) && (*layer)->commit({}));
  const auto synced = store_.sync();
  ASSERT_FALSE(synced);
  EXPECT_THAT(synced.error().message, HasSubstr("403"));
}

// The registry has it only when its push is over.
TEST_F(RegistryStoreTest, ALayerThatIsBeingPushedIsNotPushedTwice) {
  registry_.on_every_call([](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Fault> {
    if (call.method != "POST") return {};
    return [](const std::function<FakeRegistry::Answer()>& usual) {
      auto answer = usual();
      answer.before = [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); };
      return answer;
    };
  });
  for (const bool again : {false, true}) {
    const auto layer = store_.create(archive::kLayerMediaType);
    ASSERT_TRUE(layer && (*layer)->write(bytes_of("a layer")));
    const auto written = (*layer)->commit({});
    ASSERT_TRUE(written);
    EXPECT_EQ(written->existed, again);
  }
  ASSERT_TRUE(store_.sync());
  const auto lines = registry_.lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const auto& line) { return line.find("PUT ") == 0; }),
            1);
}

// An upload holds space of the spool only while it runs.
TEST_F(RegistryStoreTest, WhatIsPushedGivesItsRoomToWhatIsWritten) {
  RegistryOptions bounded = options();
  bounded.spool_limit = 200'000;
  RegistryStore store(bounded);
  registry_.on_every_call([](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Fault> {
    if (call.method != "PUT") return {};
    return [](const std::function<FakeRegistry::Answer()>& usual) {
      auto answer = usual();
      answer.before = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
      return answer;
    };
  });
  const std::string content = archive::test::noise(150'000, 6);
  const auto layer = store.create(archive::kLayerMediaType);
  ASSERT_TRUE(layer && (*layer)->write(bytes_of(content)) && (*layer)->commit({}));
  const auto config = store.create(archive::kConfigMediaType);
  ASSERT_TRUE(config);
  const auto written = (*config)->write(bytes_of(content));
  EXPECT_TRUE(written) << written.error().message;
  EXPECT_TRUE(store.sync());
  EXPECT_EQ(registry_.content("sha256:" + sha256_hex(content)), content);
}

TEST_F(RegistryStoreTest, ALoadIsAFewRequestsOfWhichOneStreamsALayer) {
  Tree tree = many_files();
  tree["a"] = {archive::test::noise(3'000'000, 5), false};
  const auto saved = save(store_, tree);
  ASSERT_TRUE(saved);
  registry_.forget_calls();
  ASSERT_TRUE(load(store_, saved->archive.manifest));
  const auto calls = registry_.seen();
  ASSERT_EQ(calls.size(), 4U);  // manifest, config, the layer's end, the layer
  EXPECT_THAT(calls[2].header("range"), MatchesRegex("bytes=[0-9]+-[0-9]+"));
  EXPECT_EQ(calls[3].header("range"), "");
}

TEST_F(RegistryStoreTest, ASmallLayerIsOneRequest) {
  const Tree tree = {{"a", {archive::test::noise(150'000, 6), false}}};
  const auto saved = save(store_, tree);
  ASSERT_TRUE(saved);
  registry_.forget_calls();
  EXPECT_EQ(load(store_, saved->archive.manifest).value_or(Tree{}), tree);
  EXPECT_THAT(registry_.lines(), ::testing::SizeIs(2));  // the manifest with the config, the layer
  registry_.forget_calls();
  registry_.on_call(2, FakeRegistry::cut_body(70'000));
  EXPECT_EQ(load(store_, saved->archive.manifest).value_or(Tree{}), tree);
  EXPECT_THAT(registry_.lines(), ::testing::SizeIs(3));
}

TEST_F(RegistryStoreTest, AnUploadIsOnePutWithItsLength) {
  ASSERT_TRUE(save(store_, some_tree()));
  for (const auto& call : registry_.seen()) {
    if (call.method != "PUT" || call.target.find("uploads") == std::string::npos) continue;
    EXPECT_EQ(call.header("content-length"), std::to_string(call.body.size()));
    EXPECT_EQ(call.header("content-range"), "");
    EXPECT_EQ(call.header("transfer-encoding"), "");
    EXPECT_THAT(call.target, HasSubstr("?_state=x&digest=sha256:"));
  }
}

TEST_F(RegistryStoreTest, WhatIsThereIsNotPushedAgainUnlessItIsCondemned) {
  const auto first = archive::write_archive(store_, request(some_tree()));
  ASSERT_TRUE(first);
  counter_ = 0;
  registry_.forget_calls();
  auto again = archive::write_archive(store_, request(some_tree()));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->archive.manifest, first->archive.manifest);
  EXPECT_EQ(again->written_bytes, 0U);
  const auto lines = registry_.lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const auto& line) { return line.rfind("POST", 0) == 0; }),
            0);
  counter_ = 0;
  auto anew = request(some_tree());
  anew.without = first->archive.blobs();
  registry_.forget_calls();
  ASSERT_TRUE(archive::write_archive(store_, anew));
  const auto pushed = registry_.lines();
  EXPECT_EQ(std::count_if(pushed.begin(), pushed.end(),
                          [](const auto& line) { return line.rfind("POST", 0) == 0; }),
            2);
}

// Distribution keeps the file that it has under a digest, rotten or not.
TEST_F(RegistryStoreTest, WhatTheRegistryKeepsDamagedIsSavedInOtherBytes) {
  registry_.set([](auto& manners) { manners.keeps_files = true; });
  const auto first = archive::write_archive(store_, request(some_tree()));
  ASSERT_TRUE(first);
  const auto manifest = nlohmann::json::parse(registry_.content(first->archive.manifest));
  const std::string layer = manifest["layers"][0]["digest"];
  std::string rotten = registry_.content(layer);
  rotten[1000] = static_cast<char>(rotten[1000] ^ 1);
  registry_.put(layer, rotten);
  ASSERT_EQ(load(store_, first->archive.manifest).error().code, ErrorCode::kCorrupt);
  counter_ = 0;
  auto anew = request(some_tree());
  anew.without = first->archive.blobs();
  const auto second = archive::write_archive(store_, anew);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE(second->archive.manifest, first->archive.manifest);
  EXPECT_EQ(load(store_, second->archive.manifest).value_or(Tree{}), some_tree());
  // That rots too.
  const auto next = nlohmann::json::parse(registry_.content(second->archive.manifest));
  registry_.put(next["layers"][0]["digest"], rotten);
  counter_ = 0;
  auto third = request(some_tree());
  third.without = first->archive.blobs();
  for (const auto& blob : second->archive.blobs()) third.without.push_back(blob);
  const auto written = archive::write_archive(store_, third);
  ASSERT_TRUE(written) << written.error().message;
  counter_ = 100;  // into another folder
  EXPECT_EQ(load(store_, written->archive.manifest).value_or(Tree{}), some_tree());
}

TEST_F(RegistryStoreTest, LocationsAreWholeOrNot) {
  registry_.set([](auto& manners) { manners.relative_locations = false; });
  EXPECT_TRUE(save(store_, some_tree()));
}

TEST_F(RegistryStoreTest, ServersWithoutRangesWork) {
  const auto saved = save(store_, some_tree());
  ASSERT_TRUE(saved);
  registry_.set([](auto& manners) { manners.ranges = false; });
  EXPECT_EQ(load(store_, saved->archive.manifest).value_or(Tree{}), some_tree());
  registry_.set([](auto& manners) { manners.lengths = false; });
  EXPECT_EQ(load(store_, saved->archive.manifest).value_or(Tree{}), some_tree());
}

TEST_F(RegistryStoreTest, ManifestsMayBeTakenByTagAlone) {
  registry_.set([](auto& manners) { manners.manifests_by_digest = false; });
  const auto saved = save(store_, some_tree());
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(*load(store_, saved->archive.manifest), some_tree());
}

TEST_F(RegistryStoreTest, BlobsMayBeOnAnotherHostThatGetsNoCredentials) {
  FakeRegistry other;
  registry_.set([](auto& manners) { manners.basic = "me:secret"; });
  archive::test::write_file(
      temp_.path("config.json"),
      R"({"auths":{")" + registry_.host() + R"(":{"username":"me","password":"secret"}}})");
  RegistryOptions with = options();
  with.docker_config_file = temp_.path("config.json");
  with.plain_hosts = {other.host()};
  RegistryStore store(with);
  const auto saved = save(store, many_files());
  ASSERT_TRUE(saved) << saved.error().message;
  for (const std::string& blob : {saved->archive.layers[0], saved->archive.config}) {
    const auto content = registry_.take(blob);
    registry_.put(blob, *content);
    other.put(blob, *content);
  }
  registry_.set([&](auto& manners) { manners.blobs_on = other.host(); });
  const auto loaded = load(store, saved->archive.manifest);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(*loaded, many_files());
  EXPECT_GE(other.calls(), 3);
  for (const auto& call : other.seen()) EXPECT_EQ(call.header("authorization"), "");
}

TEST_F(RegistryStoreTest, UploadsMayBeOnAnotherHostThatGetsNoCredentials) {
  FakeRegistry other;
  registry_.set([](auto& manners) { manners.basic = "me:secret"; });
  archive::test::write_file(
      temp_.path("config.json"),
      R"({"auths":{")" + registry_.host() + R"(":{"username":"me","password":"secret"}}})");
  RegistryOptions with = options();
  with.docker_config_file = temp_.path("config.json");
  with.plain_hosts = {other.host()};
  registry_.refuse([&](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Answer> {
    if (call.method != "POST" || call.header("authorization").empty()) return {};
    return FakeRegistry::Answer{
        .status = 202, .headers = {{"Location", "http://" + other.host() + "/upload?at=1"}}};
  });
  other.refuse([&](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Answer> {
    const std::string digest = call.target.substr(call.target.find("sha256:"));
    registry_.put(digest, call.body);
    return FakeRegistry::Answer{.status = 201};
  });
  RegistryStore store(with);
  const auto saved = save(store, some_tree());
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(load(store, saved->archive.manifest).value_or(Tree{}), some_tree());
  EXPECT_EQ(other.calls(), 2);
  for (const auto& call : other.seen()) EXPECT_EQ(call.header("authorization"), "");
}

TEST_F(RegistryStoreTest, ARangeThatNobodyAskedForIsNoDamage) {
  Tree tree;
  tree["a"] = {archive::test::noise(3'000'000, 5), false};
  const auto saved = save(store_, tree);
  ASSERT_TRUE(saved);
  const size_t size = registry_.content(saved->archive.layers[0]).size();
  const std::string range = "bytes 0-65535/" + std::to_string(size);
  registry_.on_every_call(
      [&](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Fault> {
        if (call.header("range").empty()) return {};
        return FakeRegistry::status(206, std::string(64 << 10, 'x'), {{"Content-Range", range}});
      });
  const auto loaded = load(store_, saved->archive.manifest);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnavailable) << loaded.error().message;
  EXPECT_THAT(loaded.error().message, HasSubstr("another range"));
}

TEST_F(RegistryStoreTest, AFullRegistryIsNotTriedAgain) {
  registry_.refuse([](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Answer> {
    if (call.method != "POST") return {};
    return FakeRegistry::Answer{.status = 500, .body = "no space left on device"};
  });
  const auto config = store_.create(archive::kConfigMediaType);
  ASSERT_TRUE(config && (*config)->write(bytes_of("a config")));
  EXPECT_FALSE((*config)->commit({}));
  EXPECT_THAT(registry_.lines(),
              ElementsAre(::testing::StartsWith("HEAD"), ::testing::StartsWith("POST")));
}

TEST_F(RegistryStoreTest, SomePlacesAreReadByRanges) {
  const std::string content = archive::test::noise(500'000, 3);
  const std::string digest = "sha256:" + sha256_hex(content);
  registry_.put(digest, content);
  const auto reader = store_.open({archive::kLayerMediaType, digest, content.size()});
  ASSERT_TRUE(reader) << reader.error().message;
  (*reader)->expect_sequential_reads();
  std::vector<uint8_t> piece(1000);
  for (const size_t offset : {499'500, 100, 300'000, 0, 1000, 2000, 499'999, 100, 500'000}) {
    const auto count = (*reader)->read_at(piece, offset);
    ASSERT_TRUE(count) << count.error().message;
    EXPECT_EQ(std::string(piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*count)),
              content.substr(std::min(offset, content.size()), piece.size()))
        << offset;
  }
}

TEST_F(RegistryStoreTest, ASizeThatIsNotTheRegistrysIsFoundOut) {
  const std::string content = archive::test::noise(500'000, 4);
  const std::string digest = "sha256:" + sha256_hex(content);
  registry_.put(digest, content);
  for (const uint64_t said : {uint64_t{0}, uint64_t{400'000}, uint64_t{600'000}, uint64_t{10}}) {
    const auto reader = store_.open({archive::kLayerMediaType, digest, said});
    ASSERT_TRUE(reader) << reader.error().message;
    EXPECT_EQ((*reader)->size(), content.size()) << said;
  }
}

TEST_F(RegistryStoreTest, AManifestHasASizeToo) {
  const auto saved = save(store_, some_tree());
  ASSERT_TRUE(saved);
  EXPECT_EQ(store_.size_of(saved->archive.manifest).value_or(0), saved->archive.manifest_bytes);
}

TEST_F(RegistryStoreTest, TheSpoolIsBoundedAndSaysWhatToSet) {
  RegistryOptions small = options();
  small.spool_limit = 100'000;
  RegistryStore store(small);
  const auto saved = save(store, some_tree());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(saved.error().message, HasSubstr("ephemeral-storage"));
  EXPECT_TRUE(registry_.manifests().empty());
  EXPECT_TRUE(save(store, {{"small", {"content", false}}}));
}

// A pod's disk is not held by what nobody will push.
TEST_F(RegistryStoreTest, AFailedSaveKeepsNothingInThePod) {
  const std::string content = archive::test::noise(50'000, 5);
  auto layer = store_.create(archive::kLayerMediaType);
  ASSERT_TRUE(layer && (*layer)->write(bytes_of(content)));
  const auto written = (*layer)->commit({});
  ASSERT_TRUE(written) << written.error().message;
  const archive::Descriptor blob{archive::kLayerMediaType, written->digest, written->size};
  ASSERT_TRUE(store_.open(blob)) << "a save reads its own layers where they are kept";
  registry_.refuse([](const Call& call) -> std::optional<Answer> {
    if (call.method == "HEAD") return std::nullopt;
    return Answer{.status = 403};
  });
  auto config = store_.create("application/json");
  ASSERT_TRUE(config && (*config)->write(bytes_of("{}")));
  ASSERT_FALSE((*config)->commit({}));
  registry_.refuse(nullptr);
  registry_.clear();
  const auto after = store_.open(blob);
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, ErrorCode::kNotFound);
}

TEST_F(RegistryStoreTest, WhatHasTheNameOfABlobAndNotItsSizeIsPushedOver) {
  const auto saved = save(store_, some_tree());
  ASSERT_TRUE(saved);
  const std::string layer = saved->archive.layers[0], right = registry_.content(layer);
  registry_.clear();
  registry_.put(layer, right.substr(0, 100));
  RegistryStore another(options());
  const auto again = save(another, some_tree());
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->archive.layers[0], layer);
  EXPECT_EQ(load(another, again->archive.manifest).value_or(Tree{}), some_tree());
}

TEST_F(RegistryStoreTest, WhatIsKeptMakesRoomForWhatIsWritten) {
  Spool spool(temp_.path(), 1000);
  const std::string content(600, 'x');
  auto first = spool.create();
  ASSERT_TRUE(first && (*first)->write(bytes_of(content)));
  const std::string digest = (*first)->finish();
  EXPECT_EQ(digest, "sha256:" + sha256_hex(content));
  spool.keep(digest, std::move(*first));
  EXPECT_NE(spool.find(digest), nullptr);
  auto second = spool.create();
  EXPECT_TRUE((*second)->write(bytes_of(content)));
  EXPECT_EQ(spool.find(digest), nullptr);
  EXPECT_EQ((*second)->write(bytes_of(content)).error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(archive::test::names_below(temp_.path()).empty()) << "files without a name";
}

TEST_F(RegistryStoreTest, AFolderThatCannotBeWrittenToIsNoMissingBlob) {
  RegistryOptions elsewhere = options();
  elsewhere.spool_folder = temp_.path("nothing");
  RegistryStore store(elsewhere);
  const auto saved = save(store, some_tree());
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(saved.error().message, HasSubstr("nothing"));
}

TEST_F(RegistryStoreTest, AnImpossibleRepositoryIsNamed) {
  RegistryOptions wrong = options();
  wrong.repository = "ml/Caches";
  RegistryStore store(wrong);
  const auto opened = store.open({"", "sha256:" + std::string(64, 'a'), 0});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(opened.error().message, HasSubstr("upper-case"));
  EXPECT_EQ(registry_.calls(), 0);
}

}  // namespace
}  // namespace compilecache::store::test
