// `kubectl compilecache report` on an API server and a Prometheus that are played.

#include "cli/report/report_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command_line.hpp"
#include "tests/support/fake_apiserver.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using testing::FakeApiServer;
using testing::FakeConnection;
using testing::FakeRequest;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kCaches[] = "/apis/compilecache.dev/v1alpha1/compilecaches";

json cache_object(const std::string& ns, const std::string& name) {
  return {{"apiVersion", "compilecache.dev/v1alpha1"},
          {"kind", "CompileCache"},
          {"metadata", {{"namespace", ns}, {"name", name}}},
          {"spec", {{"storage", {{"claimName", "caches"}}}}},
          {"status",
           {{"secondsSaved", 7200},
            {"loads", {{"exact", 3}, {"missing", 1}}},
            {"conditions", json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
}

struct Made {
  int exit_status = 0;
  std::string out, errors;
};

// A folder that is the whole PATH.
class PathWith {
 public:
  explicit PathWith(std::string folder) : folder_(std::move(folder)), before_(::getenv("PATH")) {
    std::filesystem::create_directory(folder_);
    ::setenv("PATH", folder_.c_str(), 1);
  }
  ~PathWith() { ::setenv("PATH", before_.c_str(), 1); }
  PathWith(const PathWith&) = delete;
  PathWith& operator=(const PathWith&) = delete;

  void program(const std::string& name, const std::string& script) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

 private:
  std::string folder_, before_;
};

class ReportCommand : public ::testing::Test {
 protected:
  ReportCommand() {
    std::array<char, 32> name{"/tmp/report-test-XXXXXX"};
    folder_ = ::mkdtemp(name.data());
    const json config = {
        {"apiVersion", "v1"},
        {"kind", "Config"},
        {"current-context", "c"},
        {"contexts",
         json::array({{{"name", "c"},
                       {"context", {{"cluster", "c"}, {"user", "u"}, {"namespace", "ml"}}}}})},
        {"clusters", json::array({{{"name", "c"}, {"cluster", {{"server", server.url()}}}}})},
        {"users", json::array({{{"name", "u"}, {"user", json::object()}}})}};
    std::ofstream(folder_ / "config") << config;
  }
  ~ReportCommand() override { std::filesystem::remove_all(folder_); }

  Made make(ReportOptions options) const {
    options.kubeconfig = (folder_ / "config").string();
    std::ostringstream out, errors;
    const int exit_status = run_report(options, out, errors);
    return {exit_status, out.str(), errors.str()};
  }
  void prometheus_answers(int status, const std::string& body) {
    prometheus.script([=](const FakeRequest&, FakeConnection& connection) {
      connection.reply(status, body);
      return true;
    });
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::string text_of_file(const std::string& name) const {
    std::ifstream in(file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  FakeApiServer server, prometheus;

 private:
  std::filesystem::path folder_;
};

TEST_F(ReportCommand, MakesAPageOfTheNamespaceOrOfAll) {
  server.put(kCaches, cache_object("ml", "llama"));
  server.put(kCaches, cache_object("other", "qwen"));
  const Made one = make({});
  EXPECT_EQ(one.exit_status, 0);
  EXPECT_THAT(one.errors, IsEmpty());
  EXPECT_THAT(one.out, HasSubstr("namespace ml"));
  EXPECT_THAT(one.out, HasSubstr("<b>2 h</b>"));
  EXPECT_THAT(one.out, HasSubstr("Cluster <b>c</b>"));
  EXPECT_THAT(one.out, HasSubstr("Hit rate over time: not known"));
  EXPECT_THAT(one.out, Not(HasSubstr("qwen")));
  const json all = json::parse(make({.all_namespaces = true, .output = "json"}).out);
  EXPECT_EQ(all["secondsSaved"], 14400);
  EXPECT_EQ(all["hitPercent"], 75);
  EXPECT_EQ(all["caches"].size(), 2u);
  EXPECT_THAT(make({.ns = "other", .output = "yaml"}).out, HasSubstr("secondsSaved: 7200\n"));
}

TEST_F(ReportCommand, HtmlIsNotWrittenToATerminal) {
  server.put(kCaches, cache_object("ml", "llama"));
  const Made made = make({.terminal = true});
  EXPECT_EQ(made.exit_status, 2);
  EXPECT_THAT(made.out, IsEmpty());
  EXPECT_THAT(made.errors, HasSubstr("-f report.html"));
  EXPECT_EQ(make({.terminal = true, .file = "-"}).exit_status, 2);
  EXPECT_EQ(make({.output = "yaml", .terminal = true}).exit_status, 0);
}

TEST_F(ReportCommand, IsWrittenToAFile) {
  server.put(kCaches, cache_object("ml", "llama"));
  const Made made =
      make({.terminal = true, .gpu_hour_price = {.amount = 3}, .file = file("r.html")});
  EXPECT_EQ(made.exit_status, 0) << made.errors;
  EXPECT_THAT(made.out, IsEmpty());
  EXPECT_THAT(text_of_file("r.html"), HasSubstr("about 6.00 USD</h1>"));
  const Made nowhere = make({.file = file("no-folder/r.html")});
  EXPECT_EQ(nowhere.exit_status, 1);
  EXPECT_EQ(nowhere.errors, "kubectl compilecache report: writing " + file("no-folder/r.html") +
                                ": No such file or directory\n");
}

TEST_F(ReportCommand, TheBrowserOpensTheFile) {
  server.put(kCaches, cache_object("ml", "llama"));
  PathWith path(file("bin"));
  const ReportOptions options{.file = file("r.html"), .open = true};
  const std::string mine = "; open " + options.file + " yourself\n";
  const Made none = make(options);
  EXPECT_EQ(none.exit_status, 3);
  EXPECT_THAT(none.errors, HasSubstr("running xdg-open: No such file or directory" + mine));
  EXPECT_THAT(text_of_file("r.html"), HasSubstr("</html>"));

  path.program("xdg-open", "printf %s \"$1\" >" + file("opened") + "; echo noise; echo noise >&2");
  EXPECT_EQ(make(options).exit_status, 0);
  EXPECT_EQ(text_of_file("opened"), options.file);

  path.program("xdg-open", "exit 3");
  EXPECT_THAT(make(options).errors, HasSubstr("xdg-open found no browser" + mine));
}

TEST_F(ReportCommand, AnEmptyNamespaceHasAPageAndIsToldOfOnStandardError) {
  const Made made = make({.ns = "nobody"});
  EXPECT_EQ(made.exit_status, 0);
  EXPECT_THAT(made.out, HasSubstr("There is none in namespace nobody."));
  EXPECT_EQ(made.errors, "There is no CompileCache in the namespace nobody.\n");
}

TEST_F(ReportCommand, WithoutTheRightToListThereIsNoPage) {
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.reply(403, testing::fake_status(403, "Forbidden", "you may not list"));
    return true;
  });
  const Made made = make({});
  EXPECT_EQ(made.exit_status, 1);
  EXPECT_THAT(made.out, IsEmpty());
  EXPECT_THAT(made.errors, HasSubstr("kubectl compilecache report: "));
}

TEST_F(ReportCommand, ArchivesThatCannotBeListedAreToldInThePageAndOnStandardError) {
  server.put(kCaches, cache_object("ml", "llama"));
  server.script([](const FakeRequest& request, FakeConnection& connection) {
    if (request.path.find("compilecachearchives") == std::string::npos) return false;
    connection.reply(403, testing::fake_status(403, "Forbidden", "you may not list"));
    return true;
  });
  const Made made = make({});
  EXPECT_EQ(made.exit_status, 0);
  EXPECT_THAT(made.out, HasSubstr("Not all are known: listing CompileCacheArchives"));
  EXPECT_THAT(made.errors, HasSubstr("listing CompileCacheArchives"));
}

TEST_F(ReportCommand, TheHistoryComesFromPrometheus) {
  server.put(kCaches, cache_object("ml", "llama"));
  const int64_t hour_ago = ::time(nullptr) - 3600;
  const json series = {{"metric", {{"outcome", "exact"}}},
                       {"values", json::array({json::array({hour_ago, "4"})})}};
  prometheus_answers(200,
                     json{{"status", "success"},
                          {"data", {{"resultType", "matrix"}, {"result", json::array({series})}}}}
                         .dump());
  const Made made = make({.prometheus = prometheus.url() + "/"});
  EXPECT_EQ(made.exit_status, 0) << made.errors;
  EXPECT_THAT(made.errors, IsEmpty());
  EXPECT_THAT(made.out, HasSubstr("100 % of about 4 starts of the last 14 days"));
  ASSERT_EQ(prometheus.requests().size(), 1u);
  const FakeRequest asked = prometheus.requests()[0];
  EXPECT_EQ(asked.path, "/api/v1/query_range");
  EXPECT_EQ(asked.parameter("query"),
            "sum by (outcome) (increase(compilecache_loads_total{namespace=\"ml\"}[21600s]))");
}

TEST_F(ReportCommand, APrometheusThatFailsIsToldAndThePageIsMade) {
  server.put(kCaches, cache_object("ml", "llama"));
  prometheus_answers(503, R"({"status": "error", "error": "starting <up>"})");
  const Made made = make({.prometheus = prometheus.url()});
  EXPECT_EQ(made.exit_status, 3);
  EXPECT_EQ(made.errors, "kubectl compilecache report: asking Prometheus at " + prometheus.url() +
                             ": it refuses the question: starting <up>\n");
  EXPECT_THAT(made.out, HasSubstr("it refuses the question: starting &lt;up&gt;"));
  EXPECT_THAT(made.out, HasSubstr("<b>2 h</b>"));
  prometheus_answers(503, "{}");
  EXPECT_THAT(
      json::parse(make({.output = "json", .prometheus = prometheus.url()}).out)["history"]["error"]
          .get<std::string>(),
      HasSubstr("HTTP 503"));
}

TEST_F(ReportCommand, APrometheusThatIsNotThereOrSaysTooMuch) {
  server.put(kCaches, cache_object("ml", "llama"));
  const Made refused = make({.prometheus = "http://127.0.0.1:1"});
  EXPECT_EQ(refused.exit_status, 3);
  EXPECT_THAT(refused.errors, HasSubstr("asking Prometheus at http://127.0.0.1:1: "));
  EXPECT_THAT(refused.out, HasSubstr("</html>"));
  prometheus_answers(200, std::string(2 << 20, ' '));
  const Made large = make({.prometheus = prometheus.url()});
  EXPECT_EQ(large.exit_status, 3);
  EXPECT_THAT(large.errors, HasSubstr("1048576"));
}

TEST(ReportCommandLine, TakesANamespaceOrAllAndAUrl) {
  const auto parsed = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"kubectl-compilecache", "report"});
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    CommandLine line = parse_command_line(static_cast<int>(words.size()), words.data());
    ::testing::internal::GetCapturedStdout();
    ::testing::internal::GetCapturedStderr();
    return line;
  };
  const auto usual = parsed({"-n", "ml", "--prometheus", "https://p.example.com/prometheus"});
  ASSERT_TRUE(usual.report);
  EXPECT_EQ(usual.report->ns, "ml");
  EXPECT_EQ(usual.report->output, "html");
  EXPECT_EQ(usual.report->prometheus, "https://p.example.com/prometheus");
  EXPECT_TRUE(parsed({"-A", "-o", "yaml"}).report->all_namespaces);
  const auto shown = parsed({"-f", "r.html", "--open", "--gpu-hour-price", "2.5EUR"});
  ASSERT_TRUE(shown.report);
  EXPECT_TRUE(shown.report->open);
  EXPECT_EQ(shown.report->file, "r.html");
  EXPECT_EQ(shown.report->gpu_hour_price.currency, "EUR");
  for (const auto& wrong :
       std::vector<std::vector<const char*>>{{"-A", "-n", "ml"},
                                             {"-o", "pdf"},
                                             {"--prometheus", "localhost:9090"},
                                             {"--open"},
                                             {"--open", "-f", "-"},
                                             {"--open", "-f", "r.json", "-o", "json"},
                                             {"--gpu-hour-price", "cheap"}}) {
    const auto line = parsed(wrong);
    EXPECT_FALSE(line.report) << wrong[0];
    EXPECT_EQ(line.exit_code, 2) << wrong[0];
  }
}

}  // namespace
}  // namespace compilecache::cli
