#include "http/message.hpp"

#include <gtest/gtest.h>

namespace compilecache::http {
namespace {

TEST(Message, HeadersAreFoundWhateverTheirCase) {
  const Request request{.headers = {{"X-One", "1"}, {"x-one", "2"}}};
  EXPECT_EQ(request.header("X-ONE"), "1");
  EXPECT_FALSE(request.header("X-Two"));
}

TEST(Message, QueryParametersAreDecoded) {
  const Request request{.query = "timeout=3s&name=a%2Fb+c&flag&bad=%zz"};
  EXPECT_EQ(request.query_parameter("timeout"), "3s");
  EXPECT_EQ(request.query_parameter("name"), "a/b c");
  EXPECT_EQ(request.query_parameter("flag"), "");
  EXPECT_FALSE(request.query_parameter("bad"));
  EXPECT_FALSE(request.query_parameter("time"));
}

TEST(Message, BearerTokens) {
  EXPECT_EQ((Request{.headers = {{"authorization", "bearer abc"}}}).bearer_token(), "abc");
  EXPECT_FALSE((Request{.headers = {{"Authorization", "Basic abc"}}}).bearer_token());
  EXPECT_FALSE((Request{.headers = {{"Authorization", "Bearer "}}}).bearer_token());
  EXPECT_FALSE(Request{}.bearer_token());
}

TEST(Message, BrokenEscapesAreNotDecoded) {
  EXPECT_EQ(percent_decode("a%41+"), "aA+");
  EXPECT_FALSE(percent_decode("a%4"));
  EXPECT_FALSE(percent_decode("%g0"));
}

}  // namespace
}  // namespace compilecache::http
