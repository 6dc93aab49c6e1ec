#include "operator/certificates/certificates.hpp"

#include <gtest/gtest.h>

#include <map>

#include "operator/certificates/x509.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::hours;

const WallTime kIssueTime{hours(24 * 365 * 56)};
const std::vector<std::string> kNames = service_names("compilecache-system");
const RotationPolicy kPolicy;

Certificates made() {
  auto certificates = make_certificates(kNames, kPolicy, kIssueTime);
  if (!certificates) throw std::runtime_error(certificates.error().message);
  return *certificates;
}

Certificates step(const Certificates& before, RotationStep what, WallTime now) {
  auto after = rotate(before, what, kNames, kPolicy, now);
  if (!after) throw std::runtime_error(after.error().message);
  return *after;
}

TEST(Certificates, NewOnesServeBothNamesAndNeedNothing) {
  const Certificates certificates = made();
  const auto leaf = read_certificate(certificates.leaf.certificate);
  ASSERT_TRUE(leaf);
  EXPECT_EQ(leaf->dns_names,
            (std::vector<std::string>{"compilecache-webhook.compilecache-system.svc",
                                      "compilecache-agent-api.compilecache-system.svc"}));
  EXPECT_EQ(leaf->not_before, kIssueTime - hours(1));
  EXPECT_TRUE(belongs_together(certificates.leaf, certificates.ca.certificate));
  EXPECT_FALSE(next_rotation(certificates, kNames, kPolicy, kIssueTime));
}

TEST(Certificates, TheLeafIsRenewedByTheSameAuthority) {
  const Certificates before = made();
  const WallTime later = kIssueTime + hours(24 * 61);
  ASSERT_EQ(next_rotation(before, kNames, kPolicy, later), RotationStep::kRenewLeaf);
  const Certificates after = step(before, RotationStep::kRenewLeaf, later);
  EXPECT_EQ(after.bundle(), before.bundle());
  EXPECT_NE(after.leaf.certificate, before.leaf.certificate);
  EXPECT_FALSE(next_rotation(after, kNames, kPolicy, later));
}

TEST(Certificates, ALeafForOtherNamesIsRenewed) {
  EXPECT_EQ(next_rotation(made(), service_names("elsewhere"), kPolicy, kIssueTime),
            RotationStep::kRenewLeaf);
}

// The next authority is trusted first, signs much later, and the old one stays trusted until its
// end.
TEST(Certificates, AnAuthorityIsReplacedWithOverlap) {
  const Certificates before = made();
  WallTime now = kIssueTime + kPolicy.ca_life - kPolicy.ca_next_before + hours(1);
  ASSERT_EQ(next_rotation(before, kNames, kPolicy, now), RotationStep::kAddNextCa);
  Certificates both = step(before, RotationStep::kAddNextCa, now);
  EXPECT_EQ(both.bundle(), before.ca.certificate + both.next_ca.certificate);
  EXPECT_EQ(both.ca.certificate, before.ca.certificate);
  EXPECT_EQ(next_rotation(both, kNames, kPolicy, now), RotationStep::kRenewLeaf);

  now = kIssueTime + kPolicy.ca_life - kPolicy.ca_switch_before + hours(1);
  ASSERT_EQ(next_rotation(both, kNames, kPolicy, now), RotationStep::kSwitchCa);
  Certificates switched = step(both, RotationStep::kSwitchCa, now);
  EXPECT_TRUE(belongs_together(switched.leaf, both.next_ca.certificate));
  EXPECT_NE(switched.bundle().find(before.ca.certificate), std::string::npos);
  EXPECT_FALSE(next_rotation(switched, kNames, kPolicy, now));

  now = kIssueTime + kPolicy.ca_life + hours(1);
  ASSERT_EQ(next_rotation(switched, kNames, kPolicy, now), RotationStep::kDropPrevious);
  const Certificates alone = step(switched, RotationStep::kDropPrevious, now);
  EXPECT_EQ(alone.bundle(), switched.ca.certificate);
}

TEST(Certificates, ANextAuthorityDoesNotSignTheMomentItIsKnown) {
  const WallTime late = kIssueTime + kPolicy.ca_life - hours(24);
  const Certificates both = step(made(), RotationStep::kAddNextCa, late);
  EXPECT_NE(next_rotation(both, kNames, kPolicy, late), RotationStep::kSwitchCa);
  EXPECT_EQ(next_rotation(both, kNames, kPolicy, late + kPolicy.ca_min_trusted),
            RotationStep::kSwitchCa);
}

// Short lives, checked as often as the keeper does: everything is rotated. At every moment an
// authority that was known for a while has signed the served certificate.
TEST(Certificates, OfShortLivesNeverGapWhileTheyRotate) {
  using std::chrono::seconds;
  const RotationPolicy policy = RotationPolicy::of_lives(seconds(32), seconds(4));
  Certificates now_served = make_certificates(kNames, policy, kIssueTime).value();
  std::map<RotationStep, int> steps;
  for (WallTime now = kIssueTime; now < kIssueTime + seconds(100); now += policy.poll()) {
    const std::string known = now_served.bundle();
    while (const auto due = next_rotation(now_served, kNames, policy, now)) {
      ++steps[*due];
      now_served = rotate(now_served, *due, kNames, policy, now).value();
    }
    const auto leaf = read_certificate(now_served.leaf.certificate);
    const auto authority = read_certificate(now_served.ca.certificate);
    ASSERT_GT(leaf->not_after, now);
    ASSERT_GT(authority->not_after, now);
    ASSERT_TRUE(belongs_together(now_served.leaf, now_served.ca.certificate));
    ASSERT_NE(known.find(now_served.ca.certificate), std::string::npos);
  }
  EXPECT_EQ(steps[RotationStep::kStartAnew], 0);
  EXPECT_GE(steps[RotationStep::kAddNextCa], 2);
  EXPECT_GE(steps[RotationStep::kSwitchCa], 2);
  EXPECT_GE(steps[RotationStep::kDropPrevious], 2);
  EXPECT_GE(steps[RotationStep::kRenewLeaf], 20);
}

TEST(Certificates, SurviveASecretAndGarbageStartsAnew) {
  const Certificates before = made();
  const Certificates after = from_secret_entries(secret_entries(before));
  EXPECT_EQ(after.leaf.key, before.leaf.key);
  EXPECT_FALSE(next_rotation(after, kNames, kPolicy, kIssueTime));
  EXPECT_EQ(next_rotation(from_secret_entries({{"tls.crt", "x"}}), kNames, kPolicy, kIssueTime),
            RotationStep::kStartAnew);
  EXPECT_EQ(next_rotation(before, kNames, kPolicy, kIssueTime + kPolicy.ca_life),
            RotationStep::kStartAnew);
}

}  // namespace
}  // namespace compilecache::controller
