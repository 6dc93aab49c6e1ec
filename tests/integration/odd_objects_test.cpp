// Objects as nobody should write them: each gets its fault reported, and the next one works.

#include <unistd.h>

#include <fstream>

#include "api/agent_config.hpp"
#include "tests/integration/operator_fixture.hpp"

namespace compilecache::testing {
namespace {

TEST_F(OperatorTest, AnUnknownFieldIsRefusedByItsName) {
  const std::string error = make_cache("typo", {{"retentoin", {{"unusedFor", "1h"}}}});
  EXPECT_NE(error.find("retentoin"), std::string::npos) << error;
}

TEST_F(OperatorTest, ASizeBeyondAllBoundsIsToldAndTheNextCacheWorks) {
  ASSERT_EQ(make_cache("huge", {{"retention", {{"maxTotalSize", "99999999999999999999Pi"}}}}), "");
  ASSERT_TRUE(becomes("huge", "Stalled", "True")) << process->log();
  const std::string message = cache_condition(ns, "huge", "Ready").at("message");
  EXPECT_NE(message.find("spec.retention.maxTotalSize"), std::string::npos) << message;
  EXPECT_NE(message.find("too large"), std::string::npos) << message;
  make_ready_cache("next");
}

TEST_F(OperatorTest, NamesAtTheirLimitSaveAndLoad) {
  const std::string longest(63, 'c');
  make_ready_cache(longest);
  const std::string pod(253 - 63 - 1, 'p');
  const std::string token = run_pod(pod, longest);
  EXPECT_EQ(commit(token, granted(token, longest, "a1"), "one").first, 200) << process->log();
  const auto [code, load] = process->call("POST", "/v1/load", token, {{"cache", longest}});
  EXPECT_EQ(code, 200) << load;
  EXPECT_EQ(load.value("decision", ""), "load") << load;
  EXPECT_NE(make_cache(longest + "c", json::object()), "") << "one more is refused at once";
}

// Written by hand, or by another version: what is missing is empty, what is odd is left out.
TEST_F(OperatorTest, ArchivesThatNobodySavedHarmNobody) {
  make_ready_cache("app");
  for (const json& key :
       {json::object(), json{{"GPUProduct", std::string(300, 'x') + " / ~"}, {"Image", ""}}}) {
    ASSERT_EQ(apply({{"apiVersion", api::kApiVersion},
                     {"kind", "CompileCacheArchive"},
                     {"metadata",
                      {{"name", "odd-" + std::to_string(key.size())},
                       {"namespace", ns},
                       {"labels", {{api::kCacheLabel, "app"}}}}},
                     {"spec",
                      {{"cache", "app"}, {"key", key}, {"claimName", "caches"}, {"path", "app"}}}}),
              "")
        << key;
  }
  const std::string token = run_pod("web", "app");
  EXPECT_EQ(commit(token, granted(token, "app", "a1"), "one").first, 200) << process->log();
  EXPECT_TRUE(eventually(seconds(20), [&] { return at(status("app"), "/archives") == 1; }))
      << status("app") << process->log();
  const auto [code, load] = process->call("POST", "/v1/load", token, {{"cache", "app"}});
  EXPECT_EQ(code, 200) << load;
  EXPECT_EQ(load.value("decision", ""), "load") << load;
}

// Anyone may write pods with our label, and annotations as large as the API server accepts.
TEST_F(OperatorTest, ThreeHundredPodsWithHugeAnnotationsCostNoMemory) {
  make_ready_cache("app");
  const auto resident = [] {
    int64_t size = 0, pages = 0;
    std::ifstream("/proc/" + std::to_string(process->pid()) + "/statm") >> size >> pages;
    return pages * sysconf(_SC_PAGESIZE) >> 20;
  };
  const int64_t before = resident();
  json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", json::array()}};
  for (int i = 0; i < 300; ++i) {
    api::InjectionStatus status;
    status.version = std::to_string(i);
    for (int j = 0; j < 20'000; ++j) status.variables.emplace_back("app:A");
    list["items"].push_back({{"apiVersion", "v1"},
                             {"kind", "Pod"},
                             {"metadata",
                              {{"name", "huge-" + std::to_string(i)},
                               {"namespace", ns},
                               {"labels", {{api::kCacheLabel, "app"}}},
                               {"annotations", {{api::kStatusAnnotation, api::dump(status)}}}}},
                             {"spec", {{"containers", {{{"name", "app"}, {"image", "app:1"}}}}}}});
    if (list["items"].size() < 20) continue;
    const ProcessResult made = kubectl({"create", "-f", "-"}, list.dump());
    ASSERT_EQ(made.exit_code, 0) << made.err.substr(0, 1000);
    list["items"].clear();
  }
  const std::string token = run_pod("web", "app");
  EXPECT_EQ(commit(token, granted(token, "app", "a1"), "one").first, 200) << process->log();
  EXPECT_TRUE(eventually(seconds(60), [&] { return resident() < before + 64; }))
      << before << " MiB became " << resident();
}

}  // namespace
}  // namespace compilecache::testing
