#include "operator/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "operator/registry_care.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

// What Prometheus reads, by Prometheus' own tool; and that the alert rules and the dashboard speak
// of metrics that there are.

namespace compilecache::controller {
namespace {

using testing::run_process;

const std::string kMonitoring = testing::in_tree("config/monitoring/");
const std::string kReference = testing::in_tree("docs/reference/metrics.md");

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// One of everything that happens.
void let_all_happen(Metrics& metrics) {
  metrics.load({"ml", "llama", "NVIDIA-H100", api::LoadOutcome::kExact, 0.2, 1000});
  metrics.load({"ml", "llama", "NVIDIA-H100", api::LoadOutcome::kFailed});
  metrics.commit("ml", "llama", 1.5);
  metrics.save("ml", "llama", api::SaveOutcome::kRefused);
  metrics.effect("ml", "llama", "NVIDIA-H100", api::Effect::kFull);
  metrics.webhook_request("injected", 0.002);
  metrics.sweep("ml", "llama", api::SweepOutcome::kDone);
  metrics.reconcile(true);
  metrics.set_leader([] { return true; });
  metrics.set_queue_depth([] { return 3.0; });
}

// Two archives, one of them suspect; injection is paused.
void fill(ClusterStores& stores) {
  auto cache = std::make_shared<api::CompileCache>();
  cache->metadata.ns = "ml";
  cache->metadata.name = "llama";
  cache->status.conditions = {{.type = "Ready", .status = "False"},
                              {.type = "InjectionPaused", .status = "True"}};
  cache->status.total_bytes = 4096;
  cache->status.stuck_pods = {"web-1", "web-2"};
  cache->status.last_save_time = "2026-01-02T03:04:05Z";
  cache->status.last_sweep.time = "2026-01-02T03:04:06Z";
  stores.caches.upsert("ml/llama", cache);
  for (const char* name : {"llama-1", "llama-2"}) {
    auto archive = std::make_shared<api::CompileCacheArchive>();
    archive->metadata.ns = "ml";
    archive->metadata.name = name;
    archive->cache = "llama";
    archive->head.manifest_digest = "sha256:00";
    if (std::string(name) == "llama-2") {
      archive->conditions = {{.type = "Suspect", .status = "True"}};
    }
    stores.archives.upsert("ml/" + std::string(name), archive);
  }
}

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    let_all_happen(metrics);
    fill(stores);
    metrics.set_caches([this] { return cache_gauges(view); });
    RegistryCondition registry{.full_since = WallTime{}};
    registry.health = {.audited = WallTime{std::chrono::hours(24 * 20'000)},
                       .bytes = 4096,
                       .repositories = 3,
                       .unneeded = 1,
                       .unreadable = 2,
                       .collection = CollectionReport{.collected = true, .set_aside = 5}};
    metrics.set_registry([registry] { return registry_gauges(registry); });
  }

  [[nodiscard]] bool tells(const std::string& line) const {
    return ("\n" + metrics.text()).find("\n" + line + "\n") != std::string::npos;
  }

  // Names that a query may have.
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    const std::string text = metrics.text();
    const std::regex type("# TYPE (\\S+) (\\S+)");
    for (std::sregex_iterator it(text.begin(), text.end(), type), end; it != end; ++it) {
      const std::string name = (*it)[1];
      if ((*it)[2] != "histogram") {
        names.insert(name);
        continue;
      }
      for (const char* part : {"_bucket", "_sum", "_count"}) names.insert(name + part);
    }
    return names;
  }

  void expect_known(const std::string& path) const {
    const std::string text = read_file(path);
    const std::set<std::string> known = names();
    const std::regex metric("compilecache_[a-z_]+");
    std::set<std::string> used;
    for (std::sregex_iterator it(text.begin(), text.end(), metric), end; it != end; ++it) {
      used.insert(it->str());
    }
    EXPECT_FALSE(used.empty());
    for (const std::string& name : used) EXPECT_TRUE(known.contains(name)) << path << ": " << name;
  }

  Metrics metrics;
  ClusterStores stores;
  ClusterView view{stores};
};

TEST_F(MetricsTest, AreAsPrometheusWantsThem) {
  const auto checked = run_process({"promtool", "check", "metrics"}, metrics.text());
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err << metrics.text();
  EXPECT_EQ(checked.err, "");
}

TEST_F(MetricsTest, SayOfACompileCacheWhatItsStatusSays) {
  const std::string whose = R"({namespace="ml",cache="llama")";
  EXPECT_TRUE(tells("compilecache_condition" + whose + R"(,type="Ready"} 0)"));
  EXPECT_TRUE(tells("compilecache_condition" + whose + R"(,type="InjectionPaused"} 1)"));
  EXPECT_TRUE(tells("compilecache_archives" + whose + R"(,state="usable"} 1)"));
  EXPECT_TRUE(tells("compilecache_archives" + whose + R"(,state="suspect"} 1)"));
  EXPECT_TRUE(tells("compilecache_archives" + whose + R"(,state="corrupt"} 0)"));
  EXPECT_TRUE(tells("compilecache_archive_bytes" + whose + "} 4096"));
  EXPECT_TRUE(tells("compilecache_stuck_pods" + whose + "} 2"));
  EXPECT_TRUE(tells("compilecache_last_save_timestamp_seconds" + whose + "} 1767323045"))
      << metrics.text();
}

TEST_F(MetricsTest, ForgetTheCompileCachesWhenThisReplicaLeadsNoMore) {
  metrics.set_caches(nullptr);
  EXPECT_EQ(metrics.text().find("compilecache_condition{"), std::string::npos);
}

// The table of docs/reference/metrics.md: one row for each metric, from what Prometheus reads.
std::string described(const std::string& exposition) {
  struct Told {
    std::string type, help;
    std::vector<std::string> labels;
  };
  std::map<std::string, Told> metrics;
  std::smatch found;
  std::istringstream lines(exposition);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, found, std::regex("# HELP (\\S+) (.*)"))) {
      metrics[found[1]].help = found[2];
    } else if (std::regex_match(line, found, std::regex("# TYPE (\\S+) (\\S+)"))) {
      metrics[found[1]].type = found[2];
    } else if (std::regex_match(line, found, std::regex("([a-z_]+)(\\{.*\\})? .*"))) {
      const std::string name =
          std::regex_replace(found[1].str(), std::regex("_(bucket|sum|count)$"), "");
      const auto metric = metrics.find(metrics.contains(found[1]) ? found[1].str() : name);
      if (metric == metrics.end() || !metric->second.labels.empty()) continue;
      const std::string labels = found[2];
      const std::regex label("([a-z_]+)=\"");
      for (std::sregex_iterator it(labels.begin(), labels.end(), label), end; it != end; ++it) {
        if ((*it)[1] != "le") metric->second.labels.push_back("`" + (*it)[1].str() + "`");
      }
    }
  }
  std::string table = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const auto& [name, told] : metrics) {
    std::string labels;
    for (const std::string& label : told.labels) labels += (labels.empty() ? "" : ", ") + label;
    table += "| `" + name + "` | " + told.type + " | " + labels + " | " + told.help + ". |\n";
  }
  return table;
}

// With CC_UPDATE_DOCS set the page's table is written instead of compared.
TEST_F(MetricsTest, StandInTheReferenceAsTheyAre) {
  const std::string page = read_file(kReference);
  const size_t begin = page.find("| metric |");
  ASSERT_NE(begin, std::string::npos);
  if (std::getenv("CC_UPDATE_DOCS") != nullptr) {
    std::ofstream(kReference) << page.substr(0, begin) << described(metrics.text());
    return;
  }
  EXPECT_EQ(page.substr(begin), described(metrics.text()))
      << "run this test with CC_UPDATE_DOCS=1 and commit " << kReference;
}

TEST_F(MetricsTest, CountWhatWasLoadedAndHowLongSavesTook) {
  EXPECT_TRUE(tells(R"(compilecache_loaded_bytes_total{cache="llama",gpu_product="NVIDIA-H100",)"
                    R"(namespace="ml"} 1000)"))
      << metrics.text();
  EXPECT_TRUE(tells(R"(compilecache_save_seconds_sum{cache="llama",namespace="ml"} 1.5)"));
  EXPECT_TRUE(
      tells(R"(compilecache_saves_total{cache="llama",namespace="ml",outcome="committed"} 1)"));
}

TEST_F(MetricsTest, TellOfTheInstallationsRegistry) {
  EXPECT_TRUE(tells("compilecache_registry_full 1")) << metrics.text();
  EXPECT_TRUE(tells("compilecache_registry_collected 1"));
  EXPECT_TRUE(tells("compilecache_registry_set_aside 5"));
  EXPECT_TRUE(tells("compilecache_registry_unreadable 2"));
  EXPECT_TRUE(tells("compilecache_registry_unneeded_repositories 1"));
}

TEST_F(MetricsTest, AreAllThatTheRulesAndTheDashboardSpeakOf) {
  expect_known(kMonitoring + "rules.yaml");
  expect_known(kMonitoring + "rules_test.yaml");
  expect_known(kMonitoring + "dashboard.json");
}

TEST(AlertRules, FireWhenTheyShouldAndNotBefore) {
  const auto tested = run_process({"promtool", "test", "rules", kMonitoring + "rules_test.yaml"});
  EXPECT_EQ(tested.exit_code, 0) << tested.out << tested.err;
}

TEST(AlertRules, HaveEachATestAndAPage) {
  const std::string rules = read_file(kMonitoring + "rules.yaml");
  const std::string tests = read_file(kMonitoring + "rules_test.yaml");
  const std::string page = read_file(testing::in_tree("docs/troubleshoot/alerts.md"));
  const std::regex alert("- alert: (\\S+)");
  size_t count = 0;
  for (std::sregex_iterator it(rules.begin(), rules.end(), alert), end; it != end; ++it, ++count) {
    const std::string name = (*it)[1];
    EXPECT_NE(page.find("\n## " + name + "\n"), std::string::npos) << name;
    // The anchor that the site makes of the heading.
    std::string anchor = name;
    std::transform(anchor.begin(), anchor.end(), anchor.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    EXPECT_NE(rules.find("/troubleshoot/alerts/#" + anchor + "\n"), std::string::npos) << name;
    EXPECT_NE(tests.find("alertname: " + name + "\n    exp_alerts:\n    - exp_labels"),
              std::string::npos)
        << name;
  }
  EXPECT_GT(count, 5u);
}

}  // namespace
}  // namespace compilecache::controller
