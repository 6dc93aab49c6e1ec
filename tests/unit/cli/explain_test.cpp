// `kubectl compilecache explain` on an API server that holds a workload's pods.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "cli/cluster/label_match.hpp"
#include "cli/command_line.hpp"
#include "tests/support/fake_apiserver.hpp"

namespace compilecache::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using testing::FakeApiServer;
using testing::FakeConnection;
using testing::FakeRequest;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPods[] = "/api/v1/pods";

json became_true(const std::string& type, const std::string& time) {
  return {{"type", type}, {"status", "True"}, {"lastTransitionTime", time}};
}

class ExplainVerb : public ::testing::Test {
 protected:
  ExplainVerb()
      : kubeconfig_(fs::temp_directory_path() / ("explain-verb-" + std::to_string(::getpid()))) {
    const json config = {
        {"apiVersion", "v1"},
        {"kind", "Config"},
        {"current-context", "here"},
        {"clusters", {{{"name", "here"}, {"cluster", {{"server", server_.url()}}}}}},
        {"contexts",
         {{{"name", "here"},
           {"context", {{"cluster", "here"}, {"user", "me"}, {"namespace", "ml"}}}}}},
        {"users", {{{"name", "me"}, {"user", json::object()}}}}};
    std::ofstream(kubeconfig_) << config.dump();
    server_.put("/apis/apps/v1/deployments",
                {{"apiVersion", "apps/v1"},
                 {"kind", "Deployment"},
                 {"metadata", {{"namespace", "ml"}, {"name", "web"}}},
                 {"spec", {{"selector", {{"matchLabels", {{"app", "web"}}}}}}}});
    server_.put("/api/v1/nodes", {{"metadata", {{"name", "n1"}}}});
  }
  ~ExplainVerb() override {
    std::error_code ignored;
    fs::remove(kubeconfig_, ignored);
  }

  void put_pod(const std::string& name, const std::string& minute, bool injected = true) {
    api::InjectionStatus injection;
    injection.version = "0.2.0";
    injection.containers = {"server"};
    injection.init_containers = {api::kLoaderContainer, api::kSaverContainer};
    json annotations = {{api::kCacheAnnotation, "llama"}};
    if (injected) annotations[api::kStatusAnnotation] = api::dump(injection);
    const std::string time = "2026-11-20T10:" + minute;
    const json metadata = {
        {"namespace", "ml"},
        {"name", name},
        {"labels", {{"app", "web"}}},
        {"annotations", annotations},
        {"ownerReferences",
         json::array({{{"kind", "ReplicaSet"}, {"name", "web-1"}, {"uid", "rs-1"}}})},
        {"creationTimestamp", time + ":00Z"}};
    const json status = {
        {"phase", "Running"},
        {"conditions", json::array({became_true("PodScheduled", time + ":01Z"),
                                    became_true("Ready", time + ":50Z")})},
        {"containerStatuses",
         json::array({{{"name", "server"},
                       {"restartCount", 0},
                       {"state", {{"running", {{"startedAt", time + ":20Z"}}}}}}})}};
    server_.put(
        kPods, {{"metadata", metadata},
                {"spec", {{"nodeName", "n1"}, {"containers", json::array({{{"name", "server"}}})}}},
                {"status", status}});
  }

  // The next log that is asked for.
  void answer_log(int status, const std::string& text) {
    server_.script([=](const FakeRequest& request, FakeConnection& connection) {
      if (!request.path.ends_with("/log")) return false;
      connection.reply(status, text);
      return true;
    });
  }

  [[nodiscard]] std::vector<FakeRequest> asked_for(const std::string& end) const {
    std::vector<FakeRequest> found;
    for (const FakeRequest& request : server_.requests()) {
      if (request.path.ends_with(end)) found.push_back(request);
    }
    return found;
  }

  struct Told {
    int status = 0;
    std::string out, errors;
  };
  Told explain(const std::vector<std::string>& what, const std::string& output = "") {
    std::ostringstream out, errors;
    ExplainOptions options{.what = what, .kubeconfig = kubeconfig_, .output = output};
    const int status = run_explain(options, out, errors);
    return {status, out.str(), errors.str()};
  }

  FakeApiServer server_;
  const fs::path kubeconfig_;
};

TEST_F(ExplainVerb, APodsLogIsReadUpToABound) {
  put_pod("web-1-a", "00");
  answer_log(200,
             "2026-11-20T10:00:40Z (EngineCore pid=9) INFO torch.compile took 7.5 s in total\n");
  const Told told = explain({"pod/web-1-a"});
  EXPECT_EQ(told.status, 0) << told.errors;
  EXPECT_THAT(told.out, HasSubstr("steps     50 s from its creation until it was ready\n"));
  EXPECT_THAT(told.out, HasSubstr("            compile    7500 ms  vLLM: torch.compile"));
  const auto asked = asked_for("/log");
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].path, "/api/v1/namespaces/ml/pods/web-1-a/log");
  EXPECT_EQ(asked[0].parameter("container"), "server");
  EXPECT_EQ(asked[0].parameter("limitBytes"), "1048576");
  EXPECT_EQ(asked[0].parameter("timestamps"), "true");
}

TEST_F(ExplainVerb, AWorkloadsPodsAreThoseOfItsSelector) {
  put_pod("web-1-a", "00");
  put_pod("web-1-b", "01", false);
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"deployment/web"}, {"deployment", "web"}, {"deploy/web"}}) {
    const Told told = explain(what);
    EXPECT_EQ(told.status, 0) << told.errors;
    EXPECT_THAT(told.out, HasSubstr("workload  ml/Deployment/web, 2 pods\n"));
    EXPECT_THAT(told.out, HasSubstr("pods      1 not injected, 1 unknown\n"));
    EXPECT_THAT(told.out, HasSubstr("fault     not injected, cache_not_found: 1 of 2 pods; kubectl "
                                    "compilecache explain web-1-b -n ml\n"));
  }
  EXPECT_EQ(asked_for("/namespaces/ml/pods").front().parameter("labelSelector"), "app=web");
  const json machine = json::parse(explain({"deployment/web"}, "json").out);
  EXPECT_EQ(machine["newest"][0]["pod"], "web-1-b") << "the newest first";
  EXPECT_EQ(machine["medianStartMilliseconds"], 50'000);
  EXPECT_THAT(explain({"deployment/web"}, "yaml").out, HasSubstr("workload: Deployment/web\n"));
}

// The last few of many pods are timed, and shared objects are read once.
TEST_F(ExplainVerb, ManyPodsCostFewRequests) {
  for (int i = 0; i < 30; ++i) put_pod("web-1-" + std::to_string(i), std::to_string(10 + i));
  for (int i = 0; i < 30; ++i) answer_log(200, "");
  const Told told = explain({"deployment/web"});
  EXPECT_THAT(told.out, HasSubstr("30 pods\n"));
  EXPECT_EQ(asked_for("/log").size(), 10U);
  EXPECT_EQ(asked_for("/nodes/n1").size(), 1U);
  EXPECT_EQ(asked_for("/compilecaches/llama").size(), 1U);
  EXPECT_EQ(asked_for("/events").size(), 12U) << "of ten pods, their owner and the CompileCache";
}

TEST_F(ExplainVerb, WhoMayReadNoLogIsToldSoOnce) {
  for (int i = 0; i < 5; ++i) {
    put_pod("web-1-" + std::to_string(i), std::to_string(10 + i));
    answer_log(403, testing::fake_status(403, "Forbidden", "pods/log is forbidden"));
  }
  const Told told = explain({"deployment/web"}, "json");
  EXPECT_EQ(told.status, 0) << told.errors;
  EXPECT_EQ(asked_for("/log").size(), 2U);
  const json machine = json::parse(told.out);
  EXPECT_THAT(machine["unread"].dump(), HasSubstr("the log of container server"));
  EXPECT_THAT(machine["untold"].dump(), HasSubstr("the log of container server was not read"));
}

TEST_F(ExplainVerb, SaysWhatItCannotExplain) {
  Told told = explain({"deployment/other"});
  EXPECT_EQ(told.status, 1);
  EXPECT_THAT(told.errors,
              ::testing::Eq("Error: Deployment \"other\" not found in namespace \"ml\"\n"));
  told = explain({"nobody"});
  EXPECT_EQ(told.status, 1);
  EXPECT_THAT(told.errors, ::testing::Eq("Error: pod \"nobody\" not found in namespace \"ml\"\n"));
  told = explain({"service/web"});
  EXPECT_EQ(told.status, 2);
  EXPECT_THAT(told.errors, HasSubstr("write it like deployment/web"));
  server_.put("/apis/batch/v1/cronjobs", {{"apiVersion", "batch/v1"},
                                          {"kind", "CronJob"},
                                          {"metadata", {{"namespace", "ml"}, {"name", "nightly"}}},
                                          {"spec", json::object()}});
  told = explain({"cronjob/nightly"});
  EXPECT_EQ(told.status, 1);
  EXPECT_THAT(told.errors, HasSubstr("selects no pods by labels; name one of its Jobs"));
}

TEST(ExplainCommandLine, TakesOneWordOrTwo) {
  const auto parse = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"kubectl-compilecache", "explain"});
    return parse_command_line(static_cast<int>(words.size()), words.data());
  };
  EXPECT_THAT(parse({"web-1", "-o", "yaml"}).explain->what, ElementsAre("web-1"));
  EXPECT_THAT(parse({"deployment", "web", "-n", "ml"}).explain->what,
              ElementsAre("deployment", "web"));
  EXPECT_EQ(parse({"a", "b", "c"}).exit_code, 2);
  EXPECT_EQ(parse({}).exit_code, 2);
  EXPECT_EQ(parse({"web-1", "-o", "xml"}).exit_code, 2);
}

TEST(SelectorQuery, IsAsTheApiServerReadsIt) {
  EXPECT_EQ(selector_query({{"matchLabels", {{"app", "web"}, {"tier", "a"}}},
                            {"matchExpressions",
                             {{{"key", "zone"}, {"operator", "In"}, {"values", {"x", "y"}}},
                              {{"key", "old"}, {"operator", "NotIn"}, {"values", {"z"}}},
                              {{"key", "is"}, {"operator", "Exists"}},
                              {{"key", "not"}, {"operator", "DoesNotExist"}}}}}),
            "app=web,tier=a,zone in (x,y),old notin (z),is,!not");
  EXPECT_EQ(selector_query(nullptr), "");
  EXPECT_EQ(selector_query({{"matchExpressions", {{{"key", "a"}, {"operator", "Gt"}}}}}), "")
      << "a part left out would select more";
}

}  // namespace
}  // namespace compilecache::cli
