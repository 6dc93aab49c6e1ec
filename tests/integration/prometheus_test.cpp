#include <gtest/gtest.h>

#include <array>
#include <boost/process.hpp>
#include <filesystem>
#include <fstream>

#include "api/names.hpp"
#include "base/random.hpp"
#include "tests/integration/operator_process.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/support/paths.hpp"

// A real Prometheus reads the operator's metrics and judges them by our alert rules.

namespace compilecache::testing {
namespace {

namespace bp = boost::process;
namespace fs = std::filesystem;
using std::chrono::seconds;

class Prometheus {
 public:
  explicit Prometheus(uint16_t scraped) : port_(free_port()) {
    std::array<char, 64> name{"/tmp/prometheus-test-XXXXXX"};
    folder_ = ::mkdtemp(name.data());
    std::ofstream(folder_ / "prometheus.yml")
        << "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        << "rule_files: [" + testing::in_tree("config/monitoring/rules.yaml") + "]\n"
        << "scrape_configs:\n- job_name: operator\n  honor_labels: true\n"
        << "  static_configs: [{targets: ['127.0.0.1:" << scraped << "']}]\n";
    child_ = bp::child(bp::search_path("prometheus"),
                       bp::args({"--config.file=" + (folder_ / "prometheus.yml").string(),
                                 "--storage.tsdb.path=" + (folder_ / "data").string(),
                                 "--web.listen-address=127.0.0.1:" + std::to_string(port_)}),
                       bp::std_err > (folder_ / "log").string(), bp::std_out > bp::null,
                       bp::std_in < bp::null);
  }
  ~Prometheus() {
    std::error_code ignored;
    child_.terminate(ignored);
    fs::remove_all(folder_);
  }
  Prometheus(const Prometheus&) = delete;
  Prometheus& operator=(const Prometheus&) = delete;

  // Its answer now: a series a line.
  [[nodiscard]] std::string ask(const std::string& query) const {
    return run_process(
               {"promtool", "query", "instant", "http://127.0.0.1:" + std::to_string(port_), query})
        .out;
  }

 private:
  const uint16_t port_;
  fs::path folder_;
  bp::child child_;
};

TEST(PrometheusTest, SeesTheOperatorAndThatACompileCacheIsNotReady) {
  ASSERT_EQ(install_operator(), "");
  const OperatorProcess process("statusInterval: 200ms");
  const std::string ns = "prometheus-" + random_id(system_random()).substr(0, 6);
  make_namespace(ns);
  ASSERT_EQ(apply({{"apiVersion", api::kApiVersion},
                   {"kind", "CompileCache"},
                   {"metadata", {{"name", "llama"}, {"namespace", ns}}},
                   {"spec", {{"storage", {{"claimName", "nowhere"}}}}}}),
            "");
  const Prometheus prometheus(process.plain_port());
  EXPECT_TRUE(eventually(seconds(60), [&] {
    return prometheus.ask("compilecache_build_info").find("version=") != std::string::npos;
  })) << process.log();
  const std::string whose = R"({namespace=")" + ns + R"(", cache="llama"})";
  EXPECT_TRUE(eventually(seconds(60),
                         [&] {
                           return prometheus.ask("ALERTS" + whose).find("CompileCacheNotReady") !=
                                  std::string::npos;
                         }))
      << prometheus.ask("compilecache_condition" + whose) << process.log();
  EXPECT_EQ(prometheus.ask("ALERTS").find("CompileCacheOperatorDown"), std::string::npos);
  kubectl({"delete", "namespace", ns, "--wait=false"});
}

}  // namespace
}  // namespace compilecache::testing
