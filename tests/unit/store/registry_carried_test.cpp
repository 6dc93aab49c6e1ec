#include <algorithm>
#include <nlohmann/json.hpp>

#include "archive/format.hpp"
#include "base/base64.hpp"
#include "store/access/copy.hpp"
#include "store/directory/directory_store.hpp"
#include "tests/unit/store/registry_fixture.hpp"

// A manifest in a registry carries parts of its archive, so that no request is needed for it.

namespace compilecache::store::test {
namespace {

using archive::test::noise;
using Json = nlohmann::json;

class RegistryCarriedTest : public RegistryTest {
 protected:
  RegistryCarriedTest() { EXPECT_TRUE(directory_.prepare({}, false)); }

  Json manifest(const std::string& digest) { return Json::parse(registry_.content(digest)); }
  // Puts another manifest beside it, and gives its digest.
  std::string put_manifest(const Json& manifest) {
    const std::string text = manifest.dump();
    const auto blob = store_.create(archive::kManifestMediaType);
    EXPECT_TRUE((*blob)->write({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
    const auto written = (*blob)->commit({});
    EXPECT_TRUE(written) << written.error().message;
    return written->digest;
  }
  static std::string data_of(const Json& descriptor) {
    return base64_decode(descriptor.value("data", "")).value_or("");
  }

  const Tree small_{{"a", {noise(1'000, 1), false}}, {"b", {"text", true}}};
  RegistryStore store_{options()};
  DirectoryStore directory_{temp_.path("volume")};
};

TEST_F(RegistryCarriedTest, ASmallArchiveIsOneRequest) {
  const auto saved = save(store_, small_);
  ASSERT_TRUE(saved) << saved.error().message;
  for (const std::string& blob : saved->archive.blobs())
    EXPECT_NE(registry_.content(blob), "") << "it is pushed as ever";
  registry_.forget_calls();
  RegistryStore another(options());
  EXPECT_EQ(load(another, saved->archive.manifest).value_or(Tree{}), small_);
  EXPECT_THAT(registry_.lines(), ::testing::ElementsAre("GET /v2/ml/caches/llama/manifests/" +
                                                        saved->archive.manifest));
}

TEST_F(RegistryCarriedTest, WhatIsSmallIsCarriedWhateverTheParentsManifestHas) {
  const auto first = save(directory_, small_);
  ASSERT_TRUE(first && copy_archive(directory_, store_, first->archive.manifest));
  ASSERT_EQ(data_of(manifest(first->archive.manifest)["config"]), "") << "a volume needs none";
  const auto second =
      save(store_, {{"large", {noise(kCarriedUpTo, 2), false}}}, first->archive.manifest);
  ASSERT_TRUE(second) << second.error().message;
  const auto third = save(store_, {{"c", {noise(900, 3), false}}}, second->archive.manifest);
  ASSERT_TRUE(third) << third.error().message;
  const Json had = manifest(third->archive.manifest);
  ASSERT_EQ(had["layers"].size(), 3U);
  EXPECT_EQ(data_of(had["config"]), registry_.content(third->archive.config));
  EXPECT_EQ(data_of(had["layers"][0]), registry_.content(third->archive.layers[0]));
  EXPECT_FALSE(had["layers"][1].contains("data")) << "it is above the bound";
  EXPECT_EQ(data_of(had["layers"][2]), registry_.content(third->archive.layers[2]));
  registry_.forget_calls();
  Tree all = small_;
  all["large"] = {noise(kCarriedUpTo, 2), false};
  all["c"] = {noise(900, 3), false};
  EXPECT_EQ(load(store_, third->archive.manifest).value_or(Tree{}), all);
  EXPECT_EQ(registry_.calls(), 2);
}

TEST_F(RegistryCarriedTest, AManifestStaysSmall) {
  std::string parent;
  for (uint64_t seed = 0; seed < archive::kMaxLayers; ++seed) {
    const auto saved =
        save(store_, {{std::to_string(seed), {noise(kCarriedUpTo - 1'500, seed), false}}}, parent);
    ASSERT_TRUE(saved) << saved.error().message;
    parent = saved->archive.manifest;
  }
  const Json had = manifest(parent);
  for (const Json& layer : had["layers"]) EXPECT_TRUE(layer.contains("data")) << layer;
  EXPECT_LE(registry_.content(parent).size(), 128U << 10);
}

TEST_F(RegistryCarriedTest, WhatIsCarriedWronglyIsReadWhereItIs) {
  const auto saved = save(store_, small_);
  ASSERT_TRUE(saved) << saved.error().message;
  const Json good = manifest(saved->archive.manifest);
  for (const auto& where : {Json::json_pointer("/config"), Json::json_pointer("/layers/0")}) {
    const std::string right = data_of(good[where]);
    std::string flipped = right;
    flipped[flipped.size() / 2] ^= 1;
    for (const Json& wrong :
         {Json(base64_encode(flipped)), Json(base64_encode(right + "x")),
          Json(base64_encode(right.substr(1))), Json(right.substr(0, 0)), Json("not base64!"),
          Json(base64_encode(right).substr(1)), Json(17), Json(nullptr), Json::object()}) {
      Json changed = good;
      changed[where]["data"] = wrong;
      const std::string digest = put_manifest(changed);
      registry_.forget_calls();
      const auto loaded = load(store_, digest);
      ASSERT_TRUE(loaded) << wrong << ": " << loaded.error().message;
      EXPECT_EQ(*loaded, small_);
      EXPECT_EQ(registry_.calls(), 2) << wrong;
    }
    const std::string blob = good[where]["digest"].get<std::string>();
    Json changed = good;
    changed[where]["data"] = base64_encode(flipped);
    const std::string digest = put_manifest(changed);
    const auto content = registry_.take(blob);
    const auto loaded = load(store_, digest);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound) << loaded.error().message;
    EXPECT_EQ(loaded.error().digest, blob);
    registry_.put(blob, *content);
  }
}

// The right bytes of another file do not become this one.
TEST_F(RegistryCarriedTest, ADescriptorThatPromisesOtherBytesGetsThem) {
  const auto saved = save(store_, small_);
  ASSERT_TRUE(saved);
  Json changed = manifest(saved->archive.manifest);
  changed["layers"][0]["size"] = changed["layers"][0]["size"].get<uint64_t>() + 1;
  const auto loaded = load(store_, put_manifest(changed));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt) << loaded.error().message;
  EXPECT_EQ(loaded.error().digest, saved->archive.layers[0]);
}

TEST_F(RegistryCarriedTest, ACheckReadsTheBlobs) {
  const auto saved = save(store_, small_);
  ASSERT_TRUE(saved);
  EXPECT_TRUE(archive::verify(store_, saved->archive.manifest));
  for (const std::string& blob : {saved->archive.config, saved->archive.layers[0]}) {
    const std::string right = registry_.content(blob);
    std::string wrong = right;
    wrong.back() ^= 1;
    registry_.put(blob, wrong);
    EXPECT_EQ(load(store_, saved->archive.manifest).value_or(Tree{}), small_);
    const auto checked = archive::verify(store_, saved->archive.manifest);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt) << checked.error().message;
    EXPECT_EQ(checked.error().digest, blob);
    registry_.put(blob, right);
  }
}

TEST_F(RegistryCarriedTest, AVolumeTakesSuchAnArchiveAndMakesNone) {
  const auto saved = save(store_, small_);
  ASSERT_TRUE(saved);
  const auto copied = copy_archive(store_, directory_, saved->archive.manifest);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_TRUE(archive::verify(directory_, saved->archive.manifest));
  EXPECT_EQ(load(directory_, saved->archive.manifest).value_or(Tree{}), small_);
  const auto next = save(directory_, {{"c", {"more", false}}}, saved->archive.manifest);
  ASSERT_TRUE(next) << next.error().message;
  const auto manifest = archive::read_manifest(directory_, next->archive.manifest);
  ASSERT_TRUE(manifest);
  ASSERT_EQ(manifest->layers.size(), 2U);
  EXPECT_EQ(manifest->config.data, "");
  for (const auto& layer : manifest->layers) EXPECT_EQ(layer.data, "");
}

}  // namespace
}  // namespace compilecache::store::test
