#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "agent/sweep/copy.hpp"
#include "archive/format.hpp"
#include "archive/write/write.hpp"
#include "base/p256.hpp"
#include "store/registry/registry_store.hpp"
#include "store/signatures.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/unit/archive/archive_fixture.hpp"
#include "tests/unit/store/trust_keys.hpp"

// Copies with spec.trust between two repositories of registries as they are released.

namespace compilecache::agent {
namespace {

using store::test::anothers, store::test::KeyPair, store::test::ours;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RegistryKind;
using testing::RegistryProcess;

class TrustingCopy : public ::testing::TestWithParam<RegistryKind> {
 protected:
  void SetUp() override {
    if (const std::string missing = testing::missing_registry(GetParam()); !missing.empty())
      GTEST_SKIP() << missing;
    registry_ = std::make_unique<RegistryProcess>(GetParam(), temp_.path("registry"));
    ASSERT_EQ(registry_->problem(), "");
    from_ = repository("ml/caches/old");
    to_ = repository("ml/caches/new");
  }
  std::unique_ptr<store::RegistryStore> repository(const std::string& name) {
    return std::make_unique<store::RegistryStore>(
        store::RegistryOptions{.host = registry_->host(),
                               .repository = name,
                               .plain_http = true,
                               .spool_folder = temp_.path(),
                               .sleep = [](std::chrono::milliseconds) {}});
  }
  // A save of the archive of that name; its digest. With more bytes than its manifest carries.
  std::string save(const std::string& name, int generation) {
    const std::string local = temp_.path(name);
    std::ofstream(local) << archive::test::noise(300'000, static_cast<uint64_t>(generation));
    archive::WriteRequest request;
    request.files = {{local, "torch/" + name}};
    request.annotations = {{archive::kAnnotationName, name},
                           {archive::kAnnotationGeneration, std::to_string(generation)},
                           {"dev.compilecache.key.GPUProduct", name}};
    const auto written = archive::write_archive(*from_, std::move(request));
    EXPECT_TRUE(written) << written.error().message;
    return written ? written->archive.manifest : "";
  }
  void sign(const std::string& digest, const KeyPair& keys) {
    const std::string payload = store::simple_payload("r.example/ml/old", digest);
    const auto added = from_->signatures()->add({payload, *sign_p256(keys.key, payload), digest});
    EXPECT_TRUE(added) << added.error().message;
  }
  static TrustGate gate(const std::vector<std::string>& keys) {
    return TrustGate::of(keys).value();
  }
  CopiedArchives copy(const TrustGate& trust, Result<bool> answer = true) {
    taken_.clear();
    return copy_archives(*from_, *to_,
                         {.trust = trust,
                          .tell =
                              [&](const api::FoundArchive& found) {
                                taken_.push_back(found.manifest_digest);
                                return answer;
                              },
                          .in_time = [] { return true; }});
  }
  [[nodiscard]] bool is_vouched_for(store::Store& store, const std::string& digest) const {
    const auto verdict = gate({ours().public_key}).lets_in(store, digest);
    return verdict && verdict->let_in;
  }

  archive::test::TempDir temp_;
  std::unique_ptr<RegistryProcess> registry_;
  std::unique_ptr<store::RegistryStore> from_, to_;
  std::vector<std::string> taken_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, TrustingCopy,
                         ::testing::Values(RegistryKind::kDebian, RegistryKind::kDistribution),
                         [](const auto& kind) {
                           return kind.param == RegistryKind::kDebian ? "Debian" : "Distribution";
                         });

TEST_P(TrustingCopy, TakesTheNewestSaveThatAKeyHasSigned) {
  const std::string older = save("llama", 1), signed_one = save("llama", 2);
  const std::string newest = save("llama", 3), unsigned_one = save("qwen", 1);
  for (const std::string& digest : {older, signed_one}) sign(digest, ours());
  sign(signed_one, anothers());
  sign(newest, anothers());
  const auto copied = copy(gate({ours().public_key}));
  EXPECT_THAT(taken_, ElementsAre(signed_one));
  EXPECT_EQ(copied.there, 1);
  EXPECT_THAT(copied.error, HasSubstr("1 archives of"));
  EXPECT_THAT(copied.error, HasSubstr("(qwen)"));
  EXPECT_TRUE(is_vouched_for(*to_, signed_one)) << "the next copy finds the signature";

  sign(unsigned_one, ours());
  const auto again = copy(gate({ours().public_key}));
  EXPECT_EQ(again.there, 2);
  EXPECT_EQ(again.error, "");
}

// The operator refuses what comes without a signature by the new keys.
TEST_P(TrustingCopy, IsDoneAgainWithKeysThatAreAddedMeanwhile) {
  const std::string digest = save("llama", 1);
  sign(digest, ours());
  const auto refused = copy(gate({}), fail(ErrorCode::kForbidden, "the keys changed"));
  EXPECT_EQ(refused.left_out, 0) << "it is not lost";
  EXPECT_THAT(refused.error, HasSubstr("the keys changed"));
  const auto again = copy(gate({ours().public_key}));
  EXPECT_THAT(taken_, ElementsAre(digest));
  EXPECT_EQ(again.error, "");
  EXPECT_TRUE(is_vouched_for(*to_, digest));

  copy(gate({anothers().public_key}));
  EXPECT_THAT(taken_, IsEmpty());
}

}  // namespace
}  // namespace compilecache::agent
