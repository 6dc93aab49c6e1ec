#include "operator/certificates/certificate_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/soon.hpp"

namespace compilecache::controller {
namespace {

using ::testing::HasSubstr;

class CertificateFilesTest : public ::testing::Test {
 protected:
  CertificateFilesTest() {
    std::string name = "/tmp/certificate-files-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~CertificateFilesTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& file, const std::string& text) const {
    std::ofstream(folder_ + "/" + file) << text;
  }
  void write(const Certificates& certificates) const {
    write("tls.crt", certificates.leaf.certificate);
    write("tls.key", certificates.leaf.key);
    write("ca.crt", certificates.ca.certificate);
  }
  static Certificates made() {
    return make_certificates(service_names("system"), {}, std::chrono::system_clock::now()).value();
  }

  std::string folder_;
};

TEST_F(CertificateFilesTest, AreServedAndSoIsWhatReplacesThem) {
  const Certificates first = made(), second = made();
  write(first);
  CertificateFiles files(folder_);
  std::vector<ServedCertificate> told;
  files.on_change([&](const ServedCertificate& served) { told.push_back(served); });
  ASSERT_TRUE(files.prepare());
  ASSERT_TRUE(files.round());
  write(second);
  ASSERT_TRUE(files.round());
  ASSERT_EQ(told.size(), 2U) << "only a new one is reported";
  EXPECT_EQ(told[0].leaf, first.leaf);
  EXPECT_EQ(told[1].leaf, second.leaf);
  EXPECT_EQ(told[1].bundle, second.ca.certificate);
  EXPECT_EQ(files.served(), told[1]);
}

TEST_F(CertificateFilesTest, HalfAChangeIsNotServed) {
  const Certificates first = made(), second = made();
  write(first);
  CertificateFiles files(folder_);
  ASSERT_TRUE(files.prepare());
  write("tls.crt", second.leaf.certificate);
  const auto half = files.round();
  ASSERT_FALSE(half);
  EXPECT_THAT(half.error().message, HasSubstr("do not belong together"));
  EXPECT_EQ(files.served().leaf, first.leaf);
}

TEST_F(CertificateFilesTest, WhatIsMissingIsSaidAndWaitedFor) {
  CertificateFiles files(folder_);
  const auto nothing = files.prepare();
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(nothing.error().message, HasSubstr(folder_ + "/tls.crt"));
  write(made());
  write("ca.crt", "none");
  EXPECT_THAT(files.prepare().error().message, HasSubstr("ca.crt is not PEM"));
}

TEST_F(CertificateFilesTest, TheThreadSeesAChange) {
  write(made());
  CertificateFiles files(folder_, std::chrono::milliseconds(5));
  ASSERT_TRUE(files.prepare());
  files.start();
  const Certificates second = made();
  write(second);
  EXPECT_TRUE(compilecache::testing::soon([&] { return files.served().leaf == second.leaf; }));
  files.stop();
}

}  // namespace
}  // namespace compilecache::controller
