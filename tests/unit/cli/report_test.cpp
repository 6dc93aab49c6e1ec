#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/archive_key.hpp"
#include "base/time_format.hpp"
#include "cli/report/gpu_price.hpp"
#include "cli/report/markup.hpp"
#include "cli/report/prometheus.hpp"
#include "cli/report/report_html.hpp"
#include "cli/report/report_model.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const WallTime kNow = *parse_time("2026-11-24T12:00:00Z");
constexpr char kH100[] = "NVIDIA-H100-80GB-HBM3";

ArchiveRow archive(const std::string& product, const std::string& gpus,
                   const std::string& saved_at) {
  return {.name = "llama-1",
          .gpu_product = product,
          .bytes = 1 << 20,
          .saved_at = saved_at,
          .gpus = gpus,
          .warm_loads = 10,
          .compile_seconds = 100};
}

CacheOverview llama() {
  return {.ns = "ml",
          .name = "llama",
          .created = "2026-10-03T09:00:00Z",
          .ready = "True",
          .archives = {archive(kH100, "8", "2026-11-24T00:00:00Z"),
                       archive(kH100, "8", "2026-10-25T13:00:00Z"),
                       archive("NVIDIA-A100", "8", "2026-01-01T00:00:00Z")},
          .bytes = 3 << 20,
          .seconds_saved = 3600,
          .loads = {.exact = 8, .compatible = 1, .missing = 1},
          .recent_pods = 10,
          .cold = {{.pods = 1,
                    .reason = "no_archive",
                    .why = "nothing was saved yet",
                    .change = "wait",
                    .pod = "web-1"}},
          .starts = {2, 7, 171.6, 4.06}};
}

CacheOverview qwen() {
  CacheOverview overview{
      .ns = "other", .name = "qwen", .ready = "False", .bytes = 1024, .seconds_saved = 7200};
  overview.loads = {.exact = 1, .missing = 9};
  overview.wrong = {{"StorageReady", "ClaimNotFound", "no claim caches"}};
  overview.recent_pods = 32;
  overview.cold = {{.pods = 9, .reason = "too_slow", .pod = "qwen-1"}};
  return overview;
}

Report report_on(const std::vector<CacheOverview>& overviews) {
  return report_of(overviews, "", kNow);
}

// The model's sums.

TEST(ReportModel, AddsUpAndHasTheMostFirst) {
  const Report report = report_on({llama(), qwen()});
  EXPECT_EQ(report.seconds_saved, 10800);
  EXPECT_EQ(report.archives, 3);
  EXPECT_EQ(report.bytes, (3 << 20) + 1024);
  EXPECT_EQ(hit_percent(report.loads), 50);
  ASSERT_EQ(report.caches.size(), 2u);
  EXPECT_EQ(report.caches[0].overview.name, "qwen");
  ASSERT_EQ(report.cold.size(), 2u);
  EXPECT_EQ(report.cold[0].cold.reason, "too_slow");
  EXPECT_EQ(report.cold[0].recent_pods, 32);
}

TEST(ReportModel, GpuHoursCountEachGpuOfThePods) {
  EXPECT_DOUBLE_EQ(report_on({llama()}).gpu_hours_saved, 8);
  EXPECT_DOUBLE_EQ(report_on({qwen()}).gpu_hours_saved, 2) << "no archive tells: one GPU";
  CacheOverview mixed = llama();
  mixed.archives = {archive(kH100, "4", ""), archive(kH100, "2", "")};
  mixed.archives[1].warm_loads = 30;
  EXPECT_DOUBLE_EQ(report_on({mixed}).gpu_hours_saved, 2.5) << "weighed by what each has spared";
  mixed.archives[0].warm_loads = mixed.archives[1].warm_loads = 0;
  EXPECT_DOUBLE_EQ(report_on({mixed}).gpu_hours_saved, 3) << "none has spared anything";
}

TEST(ReportModel, AKeyWithoutACountIsOneGpuAndACpuIsNone) {
  CacheOverview overview = llama();
  overview.archives = {archive(kH100, "", "")};
  EXPECT_DOUBLE_EQ(report_on({overview}).gpu_hours_saved, 1);
  overview.archives = {archive("cpu-amd64", "", "")};
  EXPECT_DOUBLE_EQ(report_on({overview}).gpu_hours_saved, 0);
  overview.archives = {archive("cpu-amd64", "0", "")};
  EXPECT_DOUBLE_EQ(report_on({overview}).gpu_hours_saved, 0);
  for (const char* odd : {"-3", "8x", "99999999999999999999", "1e3"}) {
    overview.archives = {archive(kH100, odd, "")};
    EXPECT_DOUBLE_EQ(report_on({overview}).gpu_hours_saved, 1) << odd;
  }
}

TEST(ReportModel, ArchivesByProductAndAge) {
  CacheOverview more = llama();
  more.archives.push_back(archive(kH100, "8", "2026-11-18T00:00:00Z"));
  more.archives.push_back(archive(kH100, "8", "tomorrow"));
  const Report report = report_on({more});
  ASSERT_EQ(report.products.size(), 2u);
  EXPECT_EQ(report.products[0].gpu_product, "NVIDIA-A100");
  EXPECT_EQ(report.products[0].ages.older, 1);
  const ProductArchives& h100 = report.products[1];
  EXPECT_EQ(h100.archives, 4);
  EXPECT_EQ(h100.bytes, 4 << 20);
  EXPECT_EQ(h100.ages.day, 1);
  EXPECT_EQ(h100.ages.week, 1);
  EXPECT_EQ(h100.ages.month, 1);
  EXPECT_EQ(h100.ages.older, 0);
  EXPECT_EQ(h100.ages.unknown, 1);
}

TEST(ReportModel, AStatusThatCannotBeTrueSpoilsNothing) {
  CacheOverview odd = llama();
  odd.seconds_saved = -5;
  odd.bytes = INT64_MIN;
  odd.loads = {.exact = INT64_MAX, .compatible = INT64_MAX, .missing = -1};
  const Report report = report_on({odd, odd, qwen()});
  EXPECT_EQ(report.seconds_saved, 7200);
  EXPECT_EQ(report.bytes, 1024);
  EXPECT_EQ(hit_percent(report.loads), 99);
  EXPECT_EQ(hit_percent({.exact = -1, .missing = 3}), std::nullopt);
  EXPECT_EQ(hit_percent({.exact = 1, .missing = -1}), std::nullopt);
  EXPECT_EQ(hit_percent({}), std::nullopt);
}

TEST(ReportModel, ScriptsGetTheSame) {
  Report report = report_on({llama(), qwen()});
  report.history = {.source = "http://p:9090", .points = {{1795521600, 1.26, 2.04}}};
  const json told = json_of(report);
  EXPECT_EQ(told["namespace"], "");
  EXPECT_EQ(told["made"], "2026-11-24T12:00:00Z");
  EXPECT_EQ(told["secondsSaved"], 10800);
  EXPECT_EQ(told["gpuHoursSaved"], 10.0);
  EXPECT_EQ(told["hitPercent"], 50);
  EXPECT_EQ(told["loads"]["missing"], 10);
  EXPECT_EQ(told["archives"], 3);
  EXPECT_EQ(told["archivesByGPU"][0], json::parse(R"({"gpuProduct": "NVIDIA-A100", "archives": 1,
    "bytes": 1048576, "savedWithin": {"1d": 0, "7d": 0, "30d": 0, "longer": 1, "unknown": 0}})"));
  EXPECT_EQ(told["caches"][1]["name"], "llama");
  EXPECT_EQ(told["caches"][1]["gpuHoursSaved"], 8.0);
  EXPECT_EQ(told["caches"][1]["hitPercent"], 90);
  EXPECT_EQ(told["cold"][1], json::parse(R"({"namespace": "ml", "cache": "llama", "pods": 1,
    "recentPods": 10, "reason": "no_archive", "why": "nothing was saved yet", "change": "wait",
    "pod": "web-1", "expected": true})"));
  EXPECT_EQ(told["since"], "2026-10-03T09:00:00Z");
  EXPECT_EQ(told["recentPods"], 42);
  EXPECT_EQ(told["firstPods"], 1);
  EXPECT_EQ(told["faultyPods"], 9);
  EXPECT_TRUE(told["money"].is_null());
  EXPECT_EQ(told["history"], json::parse(R"({"prometheus": "http://p:9090", "error": "",
    "points": [{"time": "2026-11-24T12:00:00Z", "starts": 2.0, "warm": 1.3}]})"));
  EXPECT_TRUE(json_of(report_on({}))["hitPercent"].is_null());
}

TEST(ReportModel, FirstPodsOfAKindAreNoFaults) {
  const Report report = report_on({llama(), qwen()});
  EXPECT_EQ(report.recent_pods, 42);
  EXPECT_EQ(report.first_pods, 1);
  EXPECT_EQ(report.faulty_pods, 9);
  EXPECT_FALSE(report.cold[0].expected);
  EXPECT_TRUE(report.cold[1].expected);
  for (const char* reason : {"timeout", "gpu_product_unknown", "none", "", "a_word_of_tomorrow"}) {
    EXPECT_FALSE(cold_as_expected(reason)) << reason;
  }
}

TEST(ReportModel, ThePeriodBeginsWithTheFirstCompileCache) {
  CacheOverview older = qwen();
  older.created = "2026-09-01T00:00:00Z";
  EXPECT_EQ(report_on({llama(), older, qwen()}).since, parse_time("2026-09-01T00:00:00Z").value());
  EXPECT_EQ(report_on({qwen()}).since, std::nullopt);
}

// The price of a GPU.

TEST(GpuPrice, IsANumberAndPerhapsACurrency) {
  for (const char* text : {"2.5EUR", "2.50 EUR"}) {
    const auto price = parse_price(text);
    ASSERT_TRUE(price) << text;
    EXPECT_DOUBLE_EQ(price->amount, 2.5);
    EXPECT_EQ(price->currency, "EUR");
  }
  EXPECT_EQ(parse_price("3")->currency, "USD");
  for (const char* text : {"", "EUR", "0", "-1", "nan", "inf", "1e9", "2,5", "2.5eur", "2.5EURO",
                           "2000000", "2.5 E R"}) {
    const auto price = parse_price(text);
    ASSERT_FALSE(price) << text;
    EXPECT_THAT(price.error().message, HasSubstr("is not a price; write 2.50"));
  }
}

TEST(GpuPrice, AmountsAreReadable) {
  EXPECT_EQ(money_text(0.5, "USD"), "0.50 USD");
  EXPECT_EQ(money_text(99.994, "USD"), "99.99 USD");
  EXPECT_EQ(money_text(99.996, "USD"), "100 USD");
  EXPECT_EQ(money_text(1234.5, "EUR"), "1,235 EUR");
  EXPECT_EQ(money_text(1234567, "EUR"), "1,234,567 EUR");
  EXPECT_EQ(money_text(1e300, "EUR"), "1,000,000,000,000,000 EUR");
}

// The page's text.

TEST(ReportPage, BeginsWithPeriodClusterHoursAndMoney) {
  Report report = report_on({llama(), qwen()});
  report.cluster = "prod-eu";
  const std::string free_of_charge = html_of(report);
  EXPECT_THAT(free_of_charge, HasSubstr("<h1>Compile caches saved 10.0 GPU-hours</h1>"));
  EXPECT_THAT(free_of_charge, Not(HasSubstr("USD")));
  report.gpu_hour_price = {.amount = 250, .currency = "EUR"};
  const std::string page = html_of(report);
  EXPECT_THAT(page, HasSubstr("<h1>Compile caches saved 10.0 GPU-hours, about 2,500 EUR</h1>"));
  EXPECT_THAT(page, HasSubstr("Cluster <b>prod-eu</b>, all namespaces, from 2026-10-03 to "
                              "2026-11-24; made 2026-11-24 12:00 UTC"));
  EXPECT_THAT(page, HasSubstr("<b>2,500 EUR</b>saved"));
  EXPECT_THAT(page, HasSubstr("at 250 EUR a GPU-hour"));
  EXPECT_EQ(json_of(report)["money"],
            json::parse(R"({"gpuHourPrice": 250.0, "saved": 2500.0, "currency": "EUR"})"));
}

TEST(ReportPage, WithoutGpusTheTimeItselfWasSaved) {
  CacheOverview overview = llama();
  overview.archives = {archive("cpu-amd64", "", "")};
  EXPECT_THAT(html_of(report_on({overview})),
              HasSubstr("<h1>Compile caches saved 60 min of compiling</h1>"));
}

TEST(ReportPage, TheSummaryIsInPlainWords) {
  const std::string page = html_of(report_on({llama(), qwen()}));
  const std::string summary = page.substr(0, page.find("Appendix for engineers"));
  for (const char* told :
       {"A start of <b>llama</b> spends 4.1 s on this instead of 172 s.",
        "<li>1 of the last 42 starts had to compile because they were the first of their kind",
        "9 of the last 42 starts could not use saved code because of a fault",
        "A problem now: 1 of 2 compile caches;", "10 of 20 starts reused saved code"}) {
    EXPECT_THAT(summary, HasSubstr(told));
  }
  for (const char* no : {"kubectl", "<code>", "CompileCache", "StorageReady", "too_slow", "pod"}) {
    EXPECT_THAT(summary.substr(summary.find("<main>")), Not(HasSubstr(no)));
  }
  EXPECT_THAT(html_of(report_on({llama()})),
              HasSubstr("None of the last 10 starts was slow because of a fault."));
}

TEST(ReportPage, ColdStartsStandBesideWarmOnes) {
  const std::string page = html_of(report_on({llama(), qwen()}));
  EXPECT_THAT(page, HasSubstr("<b>ml/llama</b>\n<div class=\"start\"><span>cold</span>"));
  EXPECT_THAT(page, HasSubstr("<rect class=\"cold\" width=\"100.0\" height=\"10\"/>"));
  EXPECT_THAT(page, HasSubstr("<rect class=\"warm\" width=\"2.4\" height=\"10\"/>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"cold\">172 s<"));
  EXPECT_THAT(page, HasSubstr("data-label=\"warm\">4.1 s<"));
  EXPECT_THAT(html_of(report_on({qwen()})), Not(HasSubstr("Cold and warm starts")));
  EXPECT_EQ(
      json_of(report_on({llama()}))["caches"][0]["starts"],
      json::parse(R"({"coldPods": 2, "coldSeconds": 171.6, "warmPods": 7, "warmSeconds": 4.1})"));
}

TEST(ReportPage, FaultsStandApartFromFirstPods) {
  const std::string page = html_of(report_on({llama(), qwen()}));
  const size_t faults = page.find("<h3>Faults"), first = page.find("<h3>First pods");
  const size_t archives = page.find("<h3>Archives");
  ASSERT_LT(faults, first);
  ASSERT_LT(first, archives);
  EXPECT_THAT(page.substr(faults, first - faults), HasSubstr("too_slow"));
  EXPECT_THAT(page.substr(faults, first - faults), HasSubstr("ClaimNotFound"));
  EXPECT_THAT(page.substr(first, archives - first), HasSubstr("no_archive"));
}

TEST(ReportPage, TellsWhatWasSavedAndWhatWasNot) {
  const std::string page = html_of(report_on({llama(), qwen()}));
  for (const char* told :
       {"<title>Compile caches, all namespaces</title>", "2026-11-24 12:00 UTC", "<b>3 h</b>",
        "(10800 s)", "<b>10.0</b>GPU-hours saved", "<b>50 %</b>hit rate",
        "(9 exact, 1 compatible, 10 missing)", "3 archives, 3.0Mi in the stores",
        "<b>NVIDIA-H100-80GB-HBM3</b>: 2 archives, 2Mi", "1 saved within a day", "1 within 30 days",
        "1 longer ago", "9 of the last 32 pods of other/qwen</b>: <code>too_slow</code>",
        "nothing was saved yet", "What to do: wait", "kubectl compilecache explain web-1 -n ml",
        "StorageReady, ClaimNotFound: no claim caches", "data-label=\"GPU-hours\">8.0<"}) {
    EXPECT_THAT(page, HasSubstr(told));
  }
  EXPECT_LT(page.find("other/qwen</td>"), page.find("ml/llama</td>"));
}

TEST(ReportPage, NeedsNothingFromAnywhere) {
  Report report = report_on({llama()});
  report.history = {.source = "http://prometheus.example", .points = {{1795521600, 1, 2}}};
  const std::string page = html_of(report);
  for (const char* no :
       {"<script", "<link", "<img", "<iframe", "src=", "href=", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(no)));
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'; style-src 'unsafe-inline'"));
}

TEST(ReportPage, WithoutPrometheusItSaysThatNoHistoryIsKnown) {
  const std::string page = html_of(report_on({llama()}));
  EXPECT_THAT(page, HasSubstr("Hit rate over time: not known"));
  EXPECT_THAT(page, Not(HasSubstr("class=\"chart\"")));
}

TEST(ReportPage, APrometheusThatFailedIsToldInThePage) {
  Report report = report_on({llama()});
  report.history = {.source = "http://p", .error = "asking Prometheus at http://p: <refused>"};
  EXPECT_THAT(html_of(report),
              HasSubstr("not known: asking Prometheus at http://p: &lt;refused&gt;"));
  report.history.error = "";
  EXPECT_THAT(html_of(report), HasSubstr("Prometheus (http://p) knows of no start in the last 14"));
}

TEST(ReportPage, TheHitRateOverTimeIsDrawnAndTold) {
  Report report = report_on({llama()});
  const int64_t last = 1795521600;
  report.history = {.source = "http://p",
                    .points = {{last - 3 * kHistoryStepSeconds, 1, 4},
                               {last - 2 * kHistoryStepSeconds, 0, 0},
                               {last, 5, 4.5}}};
  const std::string page = html_of(report);
  EXPECT_THAT(page,
              HasSubstr("<p>71 % of about 9 starts of the last 14 days reused saved code; the "
                        "lowest was 25 %, in the 6 hours up to 2026-11-23 18:00 UTC."));
  EXPECT_THAT(page, HasSubstr("<title>2026-11-23 18:00 UTC: 25 % of 4</title>"));
  EXPECT_THAT(page, HasSubstr("<title>2026-11-24 12:00 UTC: 100 % of 5</title>"));
  EXPECT_THAT(page, Not(HasSubstr("2026-11-24 00:00 UTC"))) << "no start, no column";
  EXPECT_THAT(page, HasSubstr("viewBox=\"0 0 40.0 100.0\"")) << "a column's place is its time";
  EXPECT_THAT(page, HasSubstr("<rect class=\"warm\" x=\"30.0\" y=\"0.0\" width=\"8.0\""));
}

TEST(ReportPage, AnEmptyClusterHasAPageToo) {
  const std::string page = html_of(report_on({}));
  for (const char* told :
       {"<b>0 s</b>", "<b>-</b>hit rate", "no start yet", "None yet.", "saved nothing yet",
        "None of the last 0 pods", "There is none in all namespaces."}) {
    EXPECT_THAT(page, HasSubstr(told));
  }
  EXPECT_THAT(html_of(report_of({}, "ml", kNow)), HasSubstr("There is none in namespace ml."));
}

TEST(ReportPage, ArchivesThatCannotBeListedAreNotTakenForNone) {
  CacheOverview unread = llama();
  unread.archives = {};
  unread.unread = "listing CompileCacheArchives: forbidden";
  CacheOverview another = unread;
  another.name = "llama-2";
  const Report report = report_on({unread, another});
  ASSERT_EQ(report.unread.size(), 1u);
  const std::string page = html_of(report);
  EXPECT_THAT(page, HasSubstr("Not all are known: listing CompileCacheArchives: forbidden"));
  EXPECT_THAT(page, HasSubstr("? archives, "));
  EXPECT_THAT(page, Not(HasSubstr("None yet.")));
  EXPECT_EQ(json_of(report)["unread"][0], unread.unread);
}

TEST(ReportPage, TimesAreToldInTwoUnits) {
  const auto saved = [](int64_t in_all) {
    CacheOverview overview = llama();
    overview.seconds_saved = in_all;
    return html_of(report_on({overview}));
  };
  EXPECT_THAT(saved(119), HasSubstr("<b>119 s</b>"));
  EXPECT_THAT(saved(120), HasSubstr("<b>2 min</b>"));
  EXPECT_THAT(saved(7260), HasSubstr("<b>2 h 1 min</b>"));
  EXPECT_THAT(saved(400 * 3600 + 120), HasSubstr("<b>400 h</b>"));
}

// No text of the cluster becomes markup.
TEST(ReportPage, EveryTextOfTheClusterIsEscaped) {
  const std::string evil = "\"'><script>alert(1)</script>&\n\x1b[2J\xff";
  const std::string safe = "&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp; ?[2J?";
  CacheOverview hostile = llama();
  hostile.ns = "N" + evil;
  hostile.name = "C" + evil;
  hostile.ready = "R" + evil;
  hostile.unread = "U" + evil;
  hostile.archives[0].gpu_product = "G" + evil;
  hostile.cold[0] = {
      .pods = 1, .reason = "W" + evil, .why = "Y" + evil, .change = "H" + evil, .pod = "P" + evil};
  hostile.wrong = {{"T" + evil, "S" + evil, "M" + evil}};
  Report report = report_of({hostile}, "X" + evil, kNow);
  report.cluster = "K" + evil;
  report.history = {.source = "O" + evil, .error = "E" + evil};
  const std::string page = html_of(report);
  for (const char letter : std::string("NCRUGWYHPTSMXEK")) {
    EXPECT_THAT(page, HasSubstr(letter + safe));
  }
  report.history.error = "";
  const std::string none = html_of(report);
  report.history.points = {{1795521600, 1, 2}};
  for (const std::string& one : {page, none, html_of(report)}) {
    EXPECT_THAT(one, Not(HasSubstr("<script")));
    EXPECT_THAT(one, Not(HasSubstr("\x1b")));
    EXPECT_THAT(one, Not(HasSubstr("\xff")));
  }
  EXPECT_THAT(none, HasSubstr("O" + safe));
  EXPECT_THAT(html_of(report), HasSubstr("O" + safe));
}

TEST(MarkupTest, NumbersHaveOneDecimal) {
  Markup markup;
  markup.number(int64_t{7}).html(" ").number(0.25).html(" ").number(1e300);
  EXPECT_THAT(markup.take(), ::testing::StartsWith("7 0.2 1000000"));
}

// What Prometheus is asked, and what its answer is taken for.

TEST(HitHistory, AsksForTwoWeeksOfTheNamespace) {
  EXPECT_EQ(history_target("m\"l", kNow),
            "/api/v1/query_range?query=sum%20by%20%28outcome%29%20%28increase%28"
            "compilecache_loads_total%7Bnamespace%3D%22m%5C%22l%22%7D%5B21600s%5D%29%29"
            "&start=1794333600&end=1795521600&step=21600s");
  EXPECT_THAT(history_target("", kNow), HasSubstr("loads_total%5B21600s"));
}

TEST(HitHistory, ReadsWhatPrometheusAnswers) {
  const auto points = read_history(200, R"({"status": "success", "data": {"resultType": "matrix",
    "result": [
      {"metric": {"outcome": "exact"}, "values": [[1795500000, "3.5"], [1795521600, "1"]]},
      {"metric": {"outcome": "compatible"}, "values": [[1795500000, "0.5"]]},
      {"metric": {"outcome": "missing"}, "values": [[1795500000, "2"], [1795521600, "0"]]},
      {"metric": {"outcome": "a_word_of_tomorrow"}, "values": [[1795500000, "1"]]}]}})",
                                   kNow);
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 2u);
  EXPECT_EQ(points->at(0).time, 1795500000);
  EXPECT_DOUBLE_EQ(points->at(0).warm, 4);
  EXPECT_DOUBLE_EQ(points->at(0).starts, 7);
  EXPECT_DOUBLE_EQ(points->at(1).warm, 1);
}

TEST(HitHistory, WhatIsNoCountOfTheTwoWeeksIsLeftOut) {
  const auto points = read_history(200, R"({"status": "success", "data": {"resultType": "matrix",
    "result": [1, {"values": 2}, {"metric": {"outcome": 7}, "values": [[1795521600, "NaN"],
      [1795521600, "+Inf"], [1795521600, "-4"], [1795521600, "1x"], [1795521600, 5], [1e300, "1"],
      [1, "1"], ["now", "1"], "x", [1795521600], [1795521600, "2"]]}]}})",
                                   kNow);
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 1u);
  EXPECT_DOUBLE_EQ(points->at(0).starts, 2);
  EXPECT_DOUBLE_EQ(points->at(0).warm, 0);
}

TEST(HitHistory, SaysWhatIsWrongWithTheAnswer) {
  const auto error = [](int status, const std::string& body) {
    const auto read = read_history(status, body, kNow);
    return read ? "no error" : read.error().message;
  };
  EXPECT_EQ(error(422, R"({"status": "error", "error": "too many \u001b[2J"})"),
            "it refuses the question: too many ?[2J")
      << "no terminal takes it for its own";
  EXPECT_THAT(error(404, "<html>not found</html>"), HasSubstr("HTTP 404"));
  EXPECT_THAT(error(200, "<html>login</html>"),
              HasSubstr("under which Prometheus has its own pages"));
  EXPECT_THAT(error(401, "who?"), HasSubstr("kubectl port-forward"));
  EXPECT_THAT(
      error(200, R"({"status": "success", "data": {"resultType": "vector", "result": []}})"),
      HasSubstr("not an answer of Prometheus' range API"));
  EXPECT_THAT(error(200, "[]"), HasSubstr("not an answer of Prometheus' range API"));
  EXPECT_THAT(error(200, ""), HasSubstr("HTTP 200"));
}

TEST(PrometheusUrl, IsOneOfHttpWithoutAPassword) {
  for (const char* good : {"http://localhost:9090", "https://p.example.com/prometheus/"}) {
    EXPECT_TRUE(check_prometheus_url(good)) << good;
  }
  for (const char* bad :
       {"localhost:9090", "ftp://p", "http://user:word@p", "http://p/?query=up"}) {
    const auto checked = check_prometheus_url(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_THAT(checked.error().message, Not(HasSubstr("word@")));
  }
}

}  // namespace
}  // namespace compilecache::cli
