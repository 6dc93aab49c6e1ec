#include "tests/integration/registry_pod.hpp"

#include <gtest/gtest.h>
#include <openssl/hmac.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/sha256.hpp"
#include "operator/registry/es256.hpp"
#include "operator/registry/registry_keeper.hpp"
#include "operator/registry/registry_tokens.hpp"
#include "operator/registry/token_authority.hpp"
#include "operator/registry/token_claims.hpp"
#include "tests/support/small_disk.hpp"

// The installation's own registry as it is shipped, with a real distribution v3: whose tokens it
// takes, and what a collection leaves.

namespace compilecache::testing {
namespace {

using controller::KeyPair;
using controller::TokenAccess;
using controller::TokenAuthority;
using controller::TokenClaims;
using nlohmann::json;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr char kManifest[] = "application/vnd.oci.image.manifest.v1+json";
constexpr char kMine[] = "ml/transformer";

WallTime now() { return SystemClock::instance().wall(); }

class OwnRegistry : public ::testing::Test {
 protected:
  void SetUp() override {
    if (registry_program().empty()) {
      GTEST_SKIP() << "no distribution v3: CC_REGISTRY=$(tests/cluster/cluster registry)";
    }
    ASSERT_EQ(start_pod(), "");
  }
  void TearDown() override {
    pod.reset();
    std::filesystem::remove_all(folder);
  }
  std::string start_pod() {
    pod = std::make_unique<RegistryPod>(folder / "pod", serving, authority.bundle());
    return pod->start();
  }

  [[nodiscard]] static std::string token(const KeyPair& leaf, std::vector<TokenAccess> access,
                                         WallTime issued = now()) {
    return controller::sign_token(
               {.subject = "ml/web-1", .id = "1", .issued = issued, .access = std::move(access)},
               leaf)
        .value();
  }
  [[nodiscard]] std::string token(const std::string& repository,
                                  std::vector<std::string> actions) const {
    return token(leaf, {{repository, std::move(actions)}});
  }
  [[nodiscard]] std::string saver(const std::string& repository = kMine) const {
    return token(repository, controller::grant_token({.push = true}).actions);
  }
  [[nodiscard]] std::string loader() const {
    return token(kMine, controller::grant_token({}).actions);
  }
  [[nodiscard]] std::string sweeper() const {
    return token(kMine, controller::grant_token({.sweeper = true}).actions);
  }

  // A manifest with one layer; its digest. `tag`: empty: none.
  std::string push(const std::string& text, const std::string& tag,
                   const std::string& repository = kMine) const {
    const std::string with = saver(repository);
    std::string config, layer;
    EXPECT_EQ(pod->push_blob(repository, with, "{}", config), 201);
    EXPECT_EQ(pod->push_blob(repository, with, text, layer), 201);
    const json manifest = {
        {"schemaVersion", 2},
        {"mediaType", kManifest},
        {"config",
         {{"mediaType", "application/vnd.oci.empty.v1+json"}, {"digest", config}, {"size", 2}}},
        {"layers",
         {{{"mediaType", "application/vnd.oci.image.layer.v1.tar+zstd"},
           {"digest", layer},
           {"size", text.size()}}}}};
    const std::string body = manifest.dump();
    const std::string digest = "sha256:" + sha256_hex(body);
    for (const std::string& name : {digest, tag}) {
      if (name.empty()) continue;
      const auto put =
          pod->send("PUT", "/v2/" + repository + "/manifests/" + name, with, body, kManifest);
      EXPECT_EQ(put.status, 201) << put.body;
    }
    layers[digest] = layer;
    return digest;
  }
  // Whether a loader gets the manifest and its layer.
  [[nodiscard]] bool loads(const std::string& digest) const {
    const std::string root = "/v2/" + std::string(kMine);
    return pod->send("GET", root + "/manifests/" + digest, loader()).status == 200 &&
           pod->send("GET", root + "/blobs/" + layers.at(digest), loader()).status == 200;
  }
  // The answer to a request for the tags with that token.
  [[nodiscard]] int list_tags(const std::string& with) const {
    return pod->send("GET", "/v2/" + std::string(kMine) + "/tags/list", with).status;
  }
  void restart() {
    pod->stop();
    ASSERT_EQ(pod->start(), "");
  }

  const controller::Certificates serving =
      controller::make_certificates(
          controller::registry_names("compilecache-system", "compilecache-registry"), {}, now())
          .value();
  TokenAuthority authority = controller::make_token_authority({}, now()).value();
  KeyPair leaf = controller::make_token_leaf(authority, {}, now()).value();
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("registry-pod-" + std::to_string(::getpid()));
  std::unique_ptr<RegistryPod> pod;
  mutable std::map<std::string, std::string> layers;  // by manifest
};

TEST_F(OwnRegistry, TakesWhatTheOperatorMints) {
  const std::string head = push("layer", "g1-0123456789ab");
  EXPECT_TRUE(loads(head));
  EXPECT_EQ(list_tags(loader()), 200);
  EXPECT_EQ(pod->send("DELETE", "/v2/ml/transformer/manifests/" + head, sweeper()).status, 202);
  EXPECT_FALSE(loads(head));
}

TEST_F(OwnRegistry, ATokenOpensWhatItNamesAndNoMore) {
  const std::string mine = push("layer", "g1-0123456789ab");
  const std::string theirs = push("secret", "g1-0123456789ab", "other/model");
  EXPECT_EQ(pod->send("GET", "/v2/other/model/manifests/" + theirs, saver()).status, 401);
  EXPECT_EQ(pod->send("GET", "/v2/other/model/blobs/" + layers.at(theirs), saver()).status, 401);
  EXPECT_EQ(pod->send("HEAD", "/v2/other/model/blobs/" + layers.at(theirs), saver()).status, 401);
  EXPECT_EQ(pod->send("GET", "/v2/other/model/tags/list", saver()).status, 401);
  // By a digest that somebody guesses or has seen.
  EXPECT_EQ(pod->send("GET", "/v2/ml/transformer/blobs/" + layers.at(theirs), saver()).status, 404);
  EXPECT_EQ(pod->send("GET", "/v2/ml/transformer/manifests/" + theirs, saver()).status, 404);
  std::string blob;
  EXPECT_EQ(pod->push_blob(kMine, loader(), "x", blob), 401);
  EXPECT_EQ(pod->push_blob(kMine, token(kMine, {"push"}), "x", blob), 401) << "it needs both";
  EXPECT_EQ(pod->push_blob("other/model", saver(), "x", blob), 401);
  EXPECT_EQ(pod->send("DELETE", "/v2/ml/transformer/manifests/" + mine, saver()).status, 401);
  EXPECT_EQ(pod->send("DELETE", "/v2/other/model/manifests/" + theirs, sweeper()).status, 401);
  EXPECT_EQ(pod->send("GET", "/v2/_catalog", sweeper()).status, 401);
  EXPECT_TRUE(loads(mine));
}

TEST_F(OwnRegistry, NoBlobIsMountedFromAnothersRepository) {
  const std::string theirs = push("secret", "g1-0123456789ab", "other/model");
  const auto mounted = pod->send(
      "POST", "/v2/ml/transformer/blobs/uploads/?from=other/model&mount=" + layers.at(theirs),
      saver());
  EXPECT_EQ(mounted.status, 401) << mounted.body;
  EXPECT_EQ(pod->send("GET", "/v2/ml/transformer/blobs/" + layers.at(theirs), saver()).status, 404);
}

TEST_F(OwnRegistry, NobodyElsesTokenIsTaken) {
  const std::vector<TokenAccess> access{{kMine, {"pull", "push"}}};
  push("layer", "g1-0123456789ab");
  ASSERT_EQ(list_tags(token(leaf, access)), 200);
  EXPECT_EQ(list_tags(""), 401);
  EXPECT_EQ(list_tags("nonsense"), 401);
  EXPECT_EQ(list_tags(token(leaf, access, now() - minutes(7))), 401) << "over";
  EXPECT_EQ(list_tags(token(leaf, access, now() + hours(2))), 401) << "not yet";

  const auto other = controller::make_token_authority({}, now()).value();
  const KeyPair others = controller::make_token_leaf(other, {}, now()).value();
  EXPECT_EQ(list_tags(token(others, access)), 401) << "of another authority";
  EXPECT_EQ(list_tags(token({leaf.certificate, others.key}, access)), 401) << "by another key";
  EXPECT_EQ(list_tags(token(serving.leaf, access)), 401) << "by a server's certificate";

  const std::string good = token(leaf, access);
  const std::string claims = good.substr(good.find('.') + 1, good.rfind('.') - good.find('.') - 1);
  const auto without = [&](const json& header) {
    return controller::base64url(header.dump()) + "." + claims;
  };
  EXPECT_EQ(list_tags(without({{"typ", "JWT"}, {"alg", "none"}}) + "."), 401);
  // Everyone with the certificate knows this key.
  for (const std::string& key : {leaf.certificate, authority.bundle()}) {
    const std::string text = without({{"typ", "JWT"}, {"alg", "HS256"}});
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &length);
    const std::string signature(reinterpret_cast<const char*>(mac), length);
    EXPECT_EQ(list_tags(text + "." + controller::base64url(signature)), 401);
  }
  std::string changed = good;
  changed[good.rfind('.') + 5] = changed[good.rfind('.') + 5] == 'A' ? 'B' : 'A';
  EXPECT_EQ(list_tags(changed), 401);
}

TEST_F(OwnRegistry, TakesTokensOfAReplicaWhoseClockIsAhead) {
  const std::string head = push("layer", "g1-0123456789ab");
  const WallTime theirs = now() + minutes(10);
  const KeyPair ahead = controller::make_token_leaf(authority, {}, theirs).value();
  const std::string pull = token(ahead, {{kMine, {"pull"}}}, theirs);
  EXPECT_EQ(pod->send("GET", "/v2/ml/transformer/manifests/" + head, pull).status, 200);
}

TEST_F(OwnRegistry, SaysWherePeopleGetTokens) {
  const auto refused = pod->send("GET", "/v2/", "");
  EXPECT_EQ(refused.status, 401);
  EXPECT_NE(refused.header("WWW-Authenticate")
                .find("realm=\"https://compilecache-agent-api.compilecache-system.svc"
                      "/v1/registry/token\",service=\"registry\""),
            std::string::npos)
      << refused.header("WWW-Authenticate");
}

// As RegistryKeeper does it, step by step.
TEST_F(OwnRegistry, AnotherLeafNeedsNoRestartAndAnotherAuthorityOne) {
  const std::vector<TokenAccess> access{{kMine, {"pull"}}};
  push("layer", "g1-0123456789ab");
  const KeyPair next_leaf = controller::make_token_leaf(authority, {}, now()).value();
  EXPECT_EQ(list_tags(token(next_leaf, access)), 200);

  using controller::AuthorityStep;
  authority = rotate_authority(authority, AuthorityStep::kAddNext, {}, now()).value();
  auto switched = rotate_authority(authority, AuthorityStep::kSwitch, {}, now()).value();
  const KeyPair new_leaf = controller::make_token_leaf(switched, {}, now()).value();
  pod->accept(authority.bundle());
  EXPECT_EQ(list_tags(token(new_leaf, access)), 401) << "it reads them once";
  EXPECT_EQ(list_tags(token(leaf, access)), 200);
  restart();
  EXPECT_EQ(list_tags(token(new_leaf, access)), 200);
  EXPECT_EQ(list_tags(token(leaf, access)), 200);
  switched = rotate_authority(switched, AuthorityStep::kDropPrevious, {}, now()).value();
  pod->accept(switched.bundle());
  restart();
  EXPECT_EQ(list_tags(token(new_leaf, access)), 200);
  EXPECT_EQ(list_tags(token(leaf, access)), 401);
}

uintmax_t bytes_below(const std::filesystem::path& folder) {
  uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.is_regular_file()) bytes += file.file_size();
  }
  return bytes;
}

TEST_F(OwnRegistry, ARestartFreesWhatNoSaveHasAndKeepsTheRest) {
  const std::string big(1 << 20, 'x');
  const std::string head = push("kept" + big, "g2-0123456789ab");
  const uintmax_t needed = bytes_below(pod->data());
  const std::string old = push("old" + big, "g1-0123456789ab");
  const std::string died = push("died before its tag" + big, "");
  ASSERT_EQ(pod->send("DELETE", "/v2/ml/transformer/manifests/" + old, sweeper()).status, 202);
  const auto upload = pod->send("POST", "/v2/ml/transformer/blobs/uploads/", saver());
  ASSERT_EQ(upload.status, 202);
  ASSERT_EQ(pod->send("PATCH", upload.header("Location"), saver(), "half" + big,
                      "application/octet-stream")
                .status,
            202);
  ASSERT_TRUE(loads(head) && loads(died));
  ASSERT_GT(bytes_below(pod->data()), needed + 3 * big.size());
  restart();
  EXPECT_TRUE(loads(head)) << pod->collected();
  EXPECT_FALSE(loads(died));
  EXPECT_LT(bytes_below(pod->data()), needed + big.size() / 2) << pod->collected();
  // The interrupted saver pushes all again.
  push("died before its tag" + big, "g3-0123456789ab");
  EXPECT_TRUE(loads(died));
  restart();
  EXPECT_TRUE(loads(head) && loads(died));
}

TEST_F(OwnRegistry, AnUploadHasABoundAndEndsForItself) {
  std::string blob;
  EXPECT_GE(pod->push_blob(kMine, saver(), std::string(17 << 20, 'x'), blob), 500);
  EXPECT_EQ(pod->push_blob(kMine, saver(), std::string(15 << 20, 'y'), blob), 201);
  EXPECT_TRUE(loads(push("layer", "g1-0123456789ab")));
}

// One that failed for want of room would take it until the registry is restarted.
TEST_F(OwnRegistry, AnUploadThatFillsTheVolumeIsDropped) {
  SmallDisk disk((folder / "disk").string(), 8 << 20);
  if (!disk.problem().empty()) GTEST_SKIP() << disk.problem();
  RegistryPod small(std::filesystem::path(disk.folder()) / "pod", serving, authority.bundle());
  ASSERT_EQ(small.start(), "");
  std::string blob;
  EXPECT_GE(small.push_blob("evil/app", saver("evil/app"), std::string(12 << 20, 'x'), blob), 500);
  int status = 0;
  for (int tries = 0; tries < 300 && status != 201; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    status = small.push_blob(kMine, saver(), std::string(1 << 20, 'y'), blob);
  }
  EXPECT_EQ(status, 201);
}

TEST_F(OwnRegistry, OneDamagedManifestKeepsNothingElseFromBeingCollected) {
  const std::string big(1 << 20, 'x');
  const std::string head = push("kept" + big, "g2-0123456789ab");
  const std::string damaged = push("theirs" + big, "g1-0123456789ab", "other/model");
  const std::string old = push("old" + big, "g1-0123456789ab");
  ASSERT_EQ(pod->send("DELETE", "/v2/ml/transformer/manifests/" + old, sweeper()).status, 202);
  const auto storage = pod->data() / "docker/registry/v2";
  std::ofstream(storage / "blobs/sha256" / damaged.substr(7, 2) / damaged.substr(7) / "data")
      << "{";
  std::ofstream(storage / "repositories/ml/transformer/_layers/sha256" / layers.at(head).substr(7) /
                "link")
      << "";
  restart();
  EXPECT_NE(pod->collected().find("collected\n"), std::string::npos) << pod->collected();
  EXPECT_TRUE(loads(head)) << "its link is repaired; " << pod->collected();
  EXPECT_LT(bytes_below(pod->data()), 3 * big.size() / 2) << "the old and the damaged are deleted";
  EXPECT_FALSE(std::filesystem::exists(storage / "repositories/other"));
}

TEST_F(OwnRegistry, StartsWithALostOrDamagedVolume) {
  const std::string head = push("layer", "g1-0123456789ab");
  pod->stop();
  std::filesystem::remove_all(pod->data());
  ASSERT_EQ(pod->start(), "");
  EXPECT_EQ(pod->send("GET", "/v2/ml/transformer/manifests/" + head, loader()).status, 404);
  push("layer", "g2-0123456789ab");
  EXPECT_TRUE(loads(head));
  pod->stop();
  std::filesystem::remove_all(pod->data() / "docker/registry/v2/blobs");
  ASSERT_EQ(pod->start(), "") << pod->collected();
  EXPECT_FALSE(loads(head));
  push("layer", "g3-0123456789ab");
  EXPECT_TRUE(loads(head));
}

}  // namespace
}  // namespace compilecache::testing
