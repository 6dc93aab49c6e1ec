#include "http/proxy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/http/session_servers.hpp"

namespace compilecache::http::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

bool goes_through(const std::string& no_proxy, const std::string& host, int port = 443) {
  return Proxy{"http://proxy:3128", {no_proxy}}.applies(host, port);
}

TEST(Proxy, NoneAppliesWhereThereIsNone) { EXPECT_FALSE(Proxy{}.applies("example.com", 443)); }

TEST(Proxy, ThisMachineIsReachedWithoutOne) {
  for (const char* host : {"localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1",
                           "127.1.2.3", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_FALSE(goes_through("", host)) << host;
  }
  EXPECT_TRUE(goes_through("", "localhost.example.com"));
}

TEST(Proxy, ExceptionsAreReadAsCurlAndGoReadThem) {
  struct {
    const char* entry;
    const char* host;
    bool direct;
  } const cases[] = {
      {"*", "example.com", true},
      {"*", "10.0.0.1", true},
      {"example.com", "example.com", true},
      {"example.com", "EXAMPLE.com.", true},
      {"EXAMPLE.com.", "example.com", true},
      {"example.com", "a.example.com", true},
      {"example.com", "notexample.com", false},
      {"example.com", "example.com.evil.org", false},
      {".example.com", "a.b.example.com", true},
      {".example.com", "example.com", false},
      {"*.example.com", "a.example.com", true},
      {"*.example.com", "example.com", false},
      {".svc", "registry.system.svc", true},
      {".", "example.com", false},
      {"", "example.com", false},
      {"10.0.0.1", "10.0.0.1", true},
      {"10.0.0.1", "10.0.0.10", false},
      {"10.0.0.0/8", "10.200.0.1", true},
      {"10.0.0.0/8", "11.0.0.1", false},
      {"10.0.0.0/9", "10.127.0.1", true},
      {"10.0.0.0/9", "10.128.0.1", false},
      {"0.0.0.0/0", "8.8.8.8", true},
      {"0.0.0.0/0", "2001:db8::1", false},
      {"0.0.0.0/0", "example.com", false},
      {"10.0.0.0/33", "10.0.0.1", false},
      {"10.0.0.0/", "10.0.0.0", false},
      {"10.0.0.0/x", "10.0.0.0", false},
      {"fd00::/8", "fd12::1", true},
      {"fd00::/8", "fe12::1", false},
      {"fd00::1", "fd00::1", true},
      {"[fd00::1]", "fd00::1", true},
      {"[fd00::1]:443", "fd00::1", true},
      {"[fd00::1]:444", "fd00::1", false},
      {"example.com:443", "example.com", true},
      {"example.com:5000", "example.com", false},
      {"example.com:x", "example.com", false},
      {"10.0.0.1:443", "10.0.0.1", true},
      {"10.0.0.1:5000", "10.0.0.1", false},
      {"[fd00::1", "fd00::1", false},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(goes_through(one.entry, one.host), !one.direct) << one.entry << " " << one.host;
  }
  EXPECT_FALSE((Proxy{"http://proxy", {"a.com", "b.com"}}.applies("b.com", 443)));
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

TEST(Proxy, IsNamedByTheEnvironment) {
  for (const char* name : {"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"}) unsetenv(name);
  EXPECT_EQ(proxy_of_environment().url, "");
  const Environment small("https_proxy", "http://small:1");
  const Environment exceptions("no_proxy", "a.com, .b.com,,10.0.0.0/8 c.com");
  EXPECT_EQ(proxy_of_environment().url, "http://small:1");
  EXPECT_THAT(proxy_of_environment().no_proxy,
              ElementsAre("a.com", ".b.com", "10.0.0.0/8", "c.com"));
  const Environment large("HTTPS_PROXY", "http://large:1");
  const Environment empty("NO_PROXY", "");
  EXPECT_EQ(proxy_of_environment().url, "http://large:1");
  EXPECT_EQ(proxy_of_environment().no_proxy.size(), 4U);
}

TEST_F(ThroughProxyTest, TheProxyConnectsAndTheServerProvesWhoItIs) {
  start_proxy("HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n");
  {
    Session session(through());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(told(session, {.url = url(), .headers = {{"Authorization", "secret"}}}),
                "from " + host_port() + "\n");
    }
  }
  EXPECT_THAT(asked(), HasSubstr("CONNECT " + host_port() + " HTTP/1.1\r\n"));
  EXPECT_EQ(asked_.find("CONNECT", 1), std::string::npos) << "the connection was not kept";
  EXPECT_THAT(asked_, Not(HasSubstr("uthorization")));
}

TEST_F(ThroughProxyTest, TheProxysUserAndPasswordAreSentToItAlone) {
  start_proxy("HTTP/1.1 200 OK\r\n\r\n");
  {
    Session session(through("us%3Aer:pass%20word@"));
    EXPECT_EQ(told(session, {.url = url()}), "from " + host_port() + "\n");
  }
  // Of "us:er:pass word".
  EXPECT_THAT(asked(), HasSubstr("Proxy-Authorization: Basic dXM6ZXI6cGFzcyB3b3Jk\r\n"));
}

TEST_F(ThroughProxyTest, AnExceptionIsReachedDirectly) {
  start_proxy("HTTP/1.1 500 Broken\r\n\r\n");
  SessionOptions options = through();
  options.proxy.no_proxy = {".example.com"};
  options.fixed_host = host_port();
  Session session(options);
  EXPECT_EQ(told(session, {.url = url()}), "from " + host_port() + "\n");
  EXPECT_EQ(asked(), "");
}

TEST_F(ThroughProxyTest, ARefusalNamesTheProxyAndNoPassword) {
  for (const char* status : {"407 Proxy Authentication Required", "403 Forbidden", "502 Broken"}) {
    start_proxy("HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 100\r\n\r\n<html>");
    const std::string proxy = "127.0.0.1:" + std::to_string(proxy_->port());
    const auto answer = Session(through("user:secret@")).start({.url = url()});
    EXPECT_EQ(code_of_result(answer), ErrorCode::kUnavailable) << status;
    EXPECT_THAT(message_of(answer), HasSubstr(proxy));
    EXPECT_THAT(message_of(answer), HasSubstr(std::string(status, 3)));
    EXPECT_THAT(message_of(answer), Not(HasSubstr("secret")));
  }
}

TEST_F(ThroughProxyTest, AProxyThatLeadsElsewhereIsFoundOut) {
  serve([](const Request&, const Responder&) { ADD_FAILURE() << "it was asked"; }, "other.com");
  start_proxy("HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_EQ(code_of_result(Session(through()).start({.url = url()})), ErrorCode::kUnauthorized);
}

TEST_F(ThroughProxyTest, AProxyThatIsSilentEndsByTheConnectTimeout) {
  proxy_ = std::make_unique<RawServer>(read_to_the_end);
  SessionOptions options = through();
  options.connect_timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(code_of_result(Session(options).start({.url = url()})), ErrorCode::kTimeout);
}

TEST_F(ThroughProxyTest, AProxyThatIsNotThereIsUnavailable) {
  start_proxy("");
  const SessionOptions options = through();
  proxy_.reset();
  const auto answer = Session(options).start({.url = url()});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kUnavailable);
  EXPECT_THAT(message_of(answer), HasSubstr("the proxy 127.0.0.1:"));
}

TEST_F(ThroughProxyTest, AProxyOfAnotherKindIsInvalid) {
  for (const char* proxy : {"https://user:secret@proxy:3128", "socks5://user:secret@proxy",
                            "http://user:secret@:3128", "http://user:%zz@127.0.0.1:1"}) {
    SessionOptions options = this->options();
    options.fixed_host.clear();
    options.proxy.url = proxy;
    const auto answer = Session(options).start({.url = url()});
    EXPECT_EQ(code_of_result(answer), ErrorCode::kInvalid) << proxy;
    EXPECT_THAT(message_of(answer), HasSubstr("HTTPS_PROXY")) << proxy;
    EXPECT_THAT(message_of(answer), Not(HasSubstr("secret"))) << proxy;
  }
}

}  // namespace
}  // namespace compilecache::http::testing
