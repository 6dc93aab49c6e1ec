#include "http/url.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace compilecache::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Url, IsTakenApart) {
  const auto url = parse_url("HTTPS://User:p%40ss@Registry.Example.COM:8443/v2/A?x=/y#part");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->user_info, "User:p%40ss");
  EXPECT_EQ(url->host, "registry.example.com");
  EXPECT_EQ(url->port, 8443);
  EXPECT_EQ(url->target, "/v2/A?x=/y");
  EXPECT_EQ(url->text(), "https://registry.example.com:8443/v2/A?x=/y");
  EXPECT_EQ(url->shown(), "https://registry.example.com:8443/v2/A");
}

TEST(Url, HasThePortThatItsSchemeImplies) {
  EXPECT_EQ(parse_url("https://a")->host_port(), "a:443");
  EXPECT_EQ(parse_url("http://a")->host_port(), "a:80");
  EXPECT_EQ(parse_url("https://a:443/")->authority(), "a");
  EXPECT_EQ(parse_url("http://a:443/")->authority(), "a:443");
  EXPECT_EQ(parse_url("https://a?x")->target, "/?x");
}

TEST(Url, AddressesHaveOneForm) {
  const auto url = parse_url("https://[0:0::1]:5000/");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->authority(), "[::1]:5000");
  EXPECT_EQ(parse_url("https://10.0.0.1/")->host, "10.0.0.1");
}

TEST(Url, WhatCouldBeReadInTwoWaysIsRefused) {
  for (const char* text : {"",
                           "registry.example.com",
                           "ftp://a/",
                           "https:/a",
                           "https:a",
                           "https://",
                           "https:///path",
                           "https://a b/",
                           "https://a/b c",
                           "https://a/\r\nX: y",
                           "https://a\\@b/",
                           "https://a:0/",
                           "https://a:65536/",
                           "https://a:/",
                           "https://a:8x/",
                           "https://[::1/",
                           "https://[fe80::1%1]/",
                           "https://[10.0.0.1]/",
                           "https://::1/",
                           "https://a..b/",
                           "https://.a/",
                           "https://a%2eb/",
                           "https://127.1/",
                           "https://0x7f000001/",
                           "https://2130706433/",
                           "https://1.2.3.4.5/",
                           "https://\xc3\xa4/",
                           "https://a,b/",
                           "://a",
                           "1https://a"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
  EXPECT_FALSE(parse_url("https://a/" + std::string(20000, 'x')));
}

TEST(Url, AnErrorShowsNoSecret) {
  for (const char* text : {"http://user:secret word@proxy:3128", "http://user:secret@proxy:x",
                           "https://a b/?signature=secret", "gopher://user:secret@a"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_THAT(url.error().message, Not(HasSubstr("secret")));
  }
}

TEST(Url, ALocationIsFollowed) {
  const Url base = *parse_url("https://user:x@a.example:5000/v2/b/c?d=e");
  const std::pair<const char*, const char*> cases[] = {
      {"https://b.example/x", "https://b.example/x"},
      {"http://b.example:81/x?y#z", "http://b.example:81/x?y"},
      {"//b.example/x", "https://b.example/x"},
      {"/x/y?z", "https://a.example:5000/x/y?z"},
      {"x", "https://a.example:5000/v2/b/x"},
      {"x:y/z", ""},
      {"./x:y", "https://a.example:5000/v2/b/x:y"},
      {"../x", "https://a.example:5000/v2/x"},
      {"../../../../x", "https://a.example:5000/x"},
      {"/a/./b/../c/..", "https://a.example:5000/a/"},
      {"/a//b/../?c/../d", "https://a.example:5000/a//?c/../d"},
      {"?z", "https://a.example:5000/v2/b/c?z"},
      {"#z", "https://a.example:5000/v2/b/c?d=e"},
      {"", "https://a.example:5000/v2/b/c?d=e"},
      {"/a b", ""},
      {"javascript:x", ""},
      {"//", ""},
  };
  for (const auto& [location, wanted] : cases) {
    const auto target = follow(base, location);
    EXPECT_EQ(target ? target->text() : "", wanted) << location;
  }
}

TEST(Url, AnOriginIsSchemeHostAndPort) {
  const Url url = *parse_url("https://a/x");
  EXPECT_TRUE(url.same_origin(*parse_url("https://A:443/y")));
  EXPECT_FALSE(url.same_origin(*parse_url("https://b/x")));
  EXPECT_FALSE(url.same_origin(*parse_url("https://a:444/x")));
  EXPECT_FALSE(url.same_origin(*parse_url("http://a:443/x")));
}

}  // namespace
}  // namespace compilecache::http
