#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "archive/format.hpp"
#include "base/p256.hpp"
#include "store/access/copy.hpp"
#include "store/offline_index.hpp"
#include "store/registry/registry_client.hpp"
#include "store/signatures.hpp"
#include "store/trust/trusted_keys.hpp"
#include "tests/support/process.hpp"
#include "tests/unit/store/released_registry.hpp"
#include "tests/unit/store/trust_keys.hpp"

// cosign works on what a save pushes to a registry: it signs the save's tag with a key file, and
// afterwards finds the signed archive. Objects that it puts beside the archive are no save, and
// an archive with a signature loads as any other, and takes it along when it goes.

namespace compilecache::store::test {
namespace {

using testing::ProcessResult;

class Cosign : public ReleasedRegistry {
 protected:
  void SetUp() override {
    ReleasedRegistry::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const char* program = std::getenv("CC_COSIGN");
    if (program == nullptr || ::access(program, X_OK) != 0)
      GTEST_SKIP() << "no cosign: CC_COSIGN=$(tests/cluster/cluster cosign)";
    make_keys("ours");
    make_keys("another");
  }

  // Nothing of the user's: neither a home folder nor a password.
  [[nodiscard]] ProcessResult cosign(std::vector<std::string> arguments) const {
    std::vector<std::string> command{"env",
                                     "-C",
                                     temp_.path(),
                                     "HOME=" + temp_.path(),
                                     "COSIGN_PASSWORD=",
                                     std::getenv("CC_COSIGN")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return testing::run_process(command);
  }
  void make_keys(const std::string& name) const {
    const auto made = cosign({"generate-key-pair", "--output-key-prefix", name});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  [[nodiscard]] std::string tagged(const std::string& digest) const {
    return registry_->host() + "/ml/llama:" + tag_of_save(digest);
  }
  [[nodiscard]] std::vector<std::string> tags() const {
    RegistryClient client(repository("ml/llama"));
    const auto list =
        client.send_whole({.target = "tags/list", .doing = "listing the tags"}, 1U << 20);
    if (!list) return {list.error().error.message};
    return nlohmann::json::parse(list->body).at("tags").get<std::vector<std::string>>();
  }
  // As in a cluster that reaches no log of transparency.
  [[nodiscard]] ProcessResult sign(const std::string& digest, const char* form = "=true") const {
    return cosign({"sign", "--key", "ours.key", "--use-signing-config=false", "--tlog-upload=false",
                   "--allow-http-registry", std::string("--new-bundle-format") + form, "--yes",
                   tagged(digest)});
  }
  [[nodiscard]] ProcessResult verify(const std::string& digest, const std::string& key) const {
    return verify_at(tagged(digest), key);
  }
  [[nodiscard]] ProcessResult verify_at(const std::string& reference,
                                        const std::string& key) const {
    return cosign({"verify", "--key", key + ".pub", "--insecure-ignore-tlog",
                   "--allow-http-registry", "-o", "json", reference});
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, Cosign, released_kinds(), kind_name);

TEST_P(Cosign, SignsASaveAndTellsItFromOthers) {
  RegistryStore store(repository("ml/llama"));
  ASSERT_TRUE(store.upkeep()->prepare({"here", "ml", "llama"}, false));
  const std::string digest = save(store, {{"a", {archive::test::noise(100'000, 1), false}}});
  const std::string other = save(store, {{"a", {archive::test::noise(100'000, 2), false}}});
  const auto before = store.upkeep()->list();
  ASSERT_TRUE(before) << before.error().message;

  const auto signed_it = sign(digest);
  ASSERT_EQ(signed_it.exit_code, 0) << signed_it.err;
  const auto verified = verify(digest, "ours");
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_NE(verified.out.find(digest), std::string::npos) << verified.out;
  const ProcessResult another_key = verify(digest, "another");
  EXPECT_NE(another_key.exit_code, 0);
  EXPECT_NE(another_key.err.find("failed to verify signature"), std::string::npos)
      << another_key.err;
  const ProcessResult not_signed = verify(other, "ours");
  EXPECT_NE(not_signed.exit_code, 0);
  EXPECT_NE(not_signed.err.find("no signatures found"), std::string::npos) << not_signed.err;

  EXPECT_TRUE(archive::verify(store, digest));
  const auto archives = archives_in(store);
  ASSERT_TRUE(archives) << archives.error().message;
  EXPECT_EQ(archives->entries.size(), 1U) << "of one name, the newest";
  // A sweep is offered what it was offered before, and what it removes goes.
  const auto after = store.upkeep()->list();
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->size(), before->size());
  const auto removed = store.upkeep()->remove({digest});
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(removed->removed, 1U);
  EXPECT_NE(verify(digest, "ours").exit_code, 0);
  EXPECT_TRUE(archive::verify(store, other));
  // And its signature with it.
  EXPECT_THAT(tags(), ::testing::UnorderedElementsAre("compilecache-owner", tag_of_save(other)));
}

TEST_P(Cosign, ItsSignatureVouchesForAnArchiveAndItVerifiesOurs) {
  RegistryStore store(repository("ml/llama"));
  const std::string theirs = save(store, {{"a", {archive::test::noise(10'000, 1), false}}});
  const std::string here = save(store, {{"a", {archive::test::noise(10'000, 2), false}}});
  const auto is_vouched_for = [&](const std::string& digest, const std::string& public_key) {
    const auto found = store.signatures()->of(digest);
    EXPECT_FALSE(found.unread) << found.unread->message;
    const auto keys = TrustedKeys::parse({public_key});
    EXPECT_TRUE(keys) << keys.error().message;
    return keys && keys->vouch_for(digest, found.all);
  };
  const std::string cosigns = archive::test::read_file(temp_.path("ours.pub"));
  ASSERT_EQ(sign(theirs).exit_code, 0);
  EXPECT_TRUE(is_vouched_for(theirs, cosigns));
  EXPECT_FALSE(is_vouched_for(theirs, archive::test::read_file(temp_.path("another.pub"))));
  EXPECT_FALSE(is_vouched_for(here, cosigns));

  std::ofstream(temp_.path("pair.pub")) << ours().public_key;
  EXPECT_NE(verify(here, "pair").exit_code, 0);
  const std::string payload = simple_payload(store.describe(), here);
  ASSERT_TRUE(store.signatures()->add({payload, *sign_p256(ours().key, payload), here}));
  EXPECT_TRUE(is_vouched_for(here, ours().public_key));
  const auto verified = verify(here, "pair");
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_NE(verify(here, "another").exit_code, 0);
}

TEST_P(Cosign, ItsSignaturesAreGoodBesideACopyToo) {
  RegistryStore store(repository("ml/llama")), elsewhere(repository("else/where"));
  for (const char* form : {"=true", "=false"}) {
    const std::string digest = save(store, {{"a", {std::string("of the form ") + form, false}}});
    ASSERT_TRUE(copy_archive(store, elsewhere, digest));
    ASSERT_EQ(sign(digest, form).exit_code, 0);
    const std::string copied = registry_->host() + "/else/where@" + digest;
    EXPECT_NE(verify_at(copied, "ours").exit_code, 0);
    ASSERT_TRUE(copy_signatures(store, elsewhere, digest));
    const auto verified = verify_at(copied, "ours");
    EXPECT_EQ(verified.exit_code, 0) << form << verified.err;
    EXPECT_NE(verify_at(copied, "another").exit_code, 0);
    if (GetParam() != testing::RegistryKind::kDistribution) continue;
    registry_->end();
    const std::string said = registry_->collect();
    registry_->start_again();
    EXPECT_EQ(verify_at(copied, "ours").exit_code, 0) << "a collection leaves them: " << said;
  }
}

}  // namespace
}  // namespace compilecache::store::test
