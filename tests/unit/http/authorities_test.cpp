#include "http/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/http/session_servers.hpp"

namespace compilecache::http::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(TlsSessionTest, AServerThatCannotProveWhoItIsGetsNothing) {
  struct {
    std::string name;
    long good_for;
    bool known;
    const char* why;
  } const cases[] = {{"other.example.com", 3600, true, "hostname mismatch"},
                     {kRegistry, -60, true, "expired"},
                     {kRegistry, 3600, false, "unable to get local issuer certificate"}};
  for (const auto& one : cases) {
    serve([](const Request&, const Responder&) { ADD_FAILURE() << "it was asked"; }, one.name,
          one.good_for);
    SessionOptions options = this->options();
    if (!one.known) options.ca_pem = TestCa("another").pem();
    const auto answer = Session(options).start({.url = url()});
    EXPECT_EQ(code_of_result(answer), ErrorCode::kUnauthorized) << one.why;
    EXPECT_THAT(message_of(answer), HasSubstr(kRegistry));
    EXPECT_THAT(message_of(answer), HasSubstr(one.why));
  }
}

TEST_F(TlsSessionTest, AnAddressIsProvedByTheCertificatesAddresses) {
  serve(say_ok, "127.0.0.1");
  SessionOptions options = this->options();
  options.fixed_host.clear();
  Session session(options);
  const auto body = body_of(session, {.url = "https://" + host_port("127.0.0.1") + "/"});
  EXPECT_TRUE(body) << message_of(body);
}

TEST_F(TlsSessionTest, AnIpv6AddressIsAskedAndProvedAsAnyOther) {
  auto server = Server::start({.address = "::1", .tls = true}, say_ok);
  if (!server) GTEST_SKIP() << "this machine has no IPv6";
  const Pair pair = ca_.issue("::1");
  ASSERT_TRUE((*server)->set_certificate(pair.certificate_pem, pair.key_pem));
  Session session({.ca_pem = ca_.pem(), .system_authorities = false});
  EXPECT_EQ(told(session, {.url = "https://[::1]:" + std::to_string((*server)->port())}), "ok\n");
}

// A folder of its own, and its files.
class AuthoritiesTest : public TlsSessionTest {
 protected:
  AuthoritiesTest() {
    serve(say_ok);
    std::ofstream(folder_ / "some.crt") << ca_.pem();
  }
  ~AuthoritiesTest() override {
    for (const char* name : {"SSL_CERT_FILE", "SSL_CERT_DIR"}) unsetenv(name);
    std::filesystem::remove_all(folder_);
  }
  static std::filesystem::path make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "authorities-XXXXXX").string();
    return mkdtemp(name.data());
  }
  SessionOptions of_system(const std::string& pem = "") const {
    SessionOptions options = this->options();
    options.ca_pem = pem;
    options.system_authorities = true;
    return options;
  }
  ErrorCode asking(const SessionOptions& options) {
    const auto answer = Session(options).start({.url = url()});
    return code_of_result(answer);
  }

  const std::filesystem::path folder_ = make_folder();
};

TEST_F(AuthoritiesTest, AFileOfTheEnvironmentIsTrusted) {
  EXPECT_EQ(asking(of_system()), ErrorCode::kUnauthorized);
  setenv("SSL_CERT_FILE", (folder_ / "some.crt").c_str(), 1);
  EXPECT_TRUE(Session(of_system()).start({.url = url()}));
}

TEST_F(AuthoritiesTest, AFolderWithHashedNamesIsTrusted) {
  setenv("SSL_CERT_DIR", ("/nonexistent:" + folder_.string()).c_str(), 1);
  EXPECT_EQ(asking(of_system()), ErrorCode::kUnauthorized);
  std::filesystem::copy_file(folder_ / "some.crt", folder_ / (ca_.subject_hash() + ".0"));
  EXPECT_TRUE(Session(of_system()).start({.url = url()}));
}

TEST_F(AuthoritiesTest, ThoseOfTheOptionsAreTrustedToo) {
  EXPECT_TRUE(Session(of_system(ca_.pem())).start({.url = url()}));
  std::ofstream(folder_ / "other.crt") << TestCa("another").pem();
  setenv("SSL_CERT_FILE", (folder_ / "other.crt").c_str(), 1);
  EXPECT_TRUE(Session(of_system(ca_.pem())).start({.url = url()}));
  EXPECT_EQ(asking(of_system()), ErrorCode::kUnauthorized);
}

TEST_F(AuthoritiesTest, WhatIsNoCertificateIsInvalid) {
  EXPECT_EQ(asking(of_system("nothing of the kind")), ErrorCode::kInvalid);
  SessionOptions nobody = options();
  nobody.ca_pem.clear();
  EXPECT_EQ(asking(nobody), ErrorCode::kInvalid);
  setenv("SSL_CERT_FILE", (folder_ / "missing.crt").c_str(), 1);
  const auto answer = Session(of_system()).start({.url = url()});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kInvalid);
  EXPECT_THAT(message_of(answer), HasSubstr("SSL_CERT_FILE"));
}

}  // namespace
}  // namespace compilecache::http::testing
