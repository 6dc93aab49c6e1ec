#include "operator/agents/agent_routes.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

// The table of the agent API's calls, and the page that is made of it.

namespace compilecache::controller {
namespace {

constexpr char kPage[] = "docs/design/agent-api.md";
constexpr char kBegin[] = "<!-- generated: the calls -->\n";
constexpr char kEnd[] = "<!-- end of what is generated -->\n";

std::string read(const std::string& name) {
  std::ifstream file(testing::in_tree(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string found(std::string_view method, std::string_view path) {
  const RouteMatch match = find_route(method, path);
  if (match.route == nullptr) return match.path_known ? "another method" : "nothing";
  EXPECT_EQ(match.route->method, method);
  return std::string(match.route->path) + (match.id.empty() ? "" : " " + match.id);
}

TEST(AgentRoutes, AreFoundByMethodAndPath) {
  EXPECT_EQ(found("POST", "/v1/load"), "/v1/load");
  EXPECT_EQ(found("POST", "/v1/loaded"), "/v1/loaded");
  EXPECT_EQ(found("PUT", "/v1/saves/a-1.17"), "/v1/saves/{id} a-1.17");
  EXPECT_EQ(found("DELETE", "/v1/saves/a-1.17"), "/v1/saves/{id} a-1.17");
  EXPECT_EQ(found("POST", "/v1/saves/a-1.17/commit"), "/v1/saves/{id}/commit a-1.17");
  EXPECT_EQ(found("POST", "/v1/saves"), "/v1/saves");
  EXPECT_EQ(found("PUT", "/v1/saves/{id}"), "/v1/saves/{id} {id}");
}

TEST(AgentRoutes, AnotherMethodIsNotAnotherPath) {
  for (const char* path : {"/v1/load", "/v1/saves", "/v1/saves/a", "/v1/saves/a/commit"}) {
    EXPECT_EQ(found("PATCH", path), "another method") << path;
  }
  EXPECT_EQ(found("GET", "/v1/load"), "another method");
  EXPECT_EQ(found("POST", "/v1/saves/a"), "another method");
  EXPECT_EQ(found("PUT", "/v1/saves/a/commit"), "another method");
}

TEST(AgentRoutes, NothingElseIsServed) {
  for (const char* path :
       {"", "/", "/v1", "/v1/", "/v1/load/", "/v1//load", "v1/load", "/v2/load", "/v1/Load",
        "/v1/saves/", "/v1/saves//commit", "/v1/saves/a/", "/v1/saves/a/commit/",
        "/v1/saves/a/commit/more", "/v1/saves/a/abort", "/v1/saves/commit/a", "/x/v1/load"}) {
    for (const char* method : {"POST", "PUT", "DELETE", "GET"}) {
      EXPECT_EQ(found(method, path), "nothing") << method << " " << path;
    }
  }
}

TEST(AgentRoutes, EachRowIsThereOnceAndComplete) {
  std::set<std::string> rows;
  for (const Route& route : agent_routes()) {
    const std::string call = std::string(route.method) + " " + std::string(route.path);
    EXPECT_TRUE(rows.insert(call).second) << call;
    EXPECT_NE(route.serve, nullptr) << call;
    EXPECT_TRUE(route.says.ends_with(".") || route.says.ends_with("?")) << call;
    EXPECT_GE(longest_agent_message(), route.longest_body) << call;
    EXPECT_EQ(route.message.has_value(), route.method != "DELETE") << call;
  }
  EXPECT_EQ(longest_agent_message(), api::kLongestSweepMessage);
  EXPECT_GT(api::kLongestSweepMessage, api::kLongestMessage);
}

// With CC_UPDATE_DOCS set the page is written instead of compared.
TEST(Docs, TheAgentApiIsDescribedAsItIs) {
  const std::string page = read(kPage);
  const size_t begin = page.find(kBegin);
  const size_t end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t from = begin + std::string(kBegin).size();
  const std::string wanted = "\n" + describe_routes() + "\n";
  if (std::getenv("CC_UPDATE_DOCS") != nullptr) {
    std::ofstream(testing::in_tree(kPage)) << page.substr(0, from) << wanted << page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(from, end - from), wanted)
      << "run this test with CC_UPDATE_DOCS=1 and commit " << kPage;
}

}  // namespace
}  // namespace compilecache::controller
