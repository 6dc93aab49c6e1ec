// Prints the page that `kubectl compilecache report` makes of made-up CompileCaches:
//
//   report_sample example     the one of docs/how-to/report.md
//   report_sample hostile     every text tries to be markup, or is far too long
//   report_sample empty       a cluster without a CompileCache
//   report_sample status      what `kubectl compilecache status` prints of one of them
//   report_sample failed      Prometheus gave no answer, archives cannot be listed

#include <cmath>
#include <iostream>
#include <string>

#include "api/archive_key.hpp"
#include "api/conditions.hpp"
#include "base/time_format.hpp"
#include "cli/report/report_html.hpp"

namespace compilecache::cli {
namespace {

const WallTime kNow = *parse_time("2026-11-24T12:00:00Z");
constexpr char kH100[] = "NVIDIA-H100-80GB-HBM3";
constexpr char kH200[] = "NVIDIA-H200";

api::CompileCacheArchive archive(const std::string& cache, const std::string& product,
                                 const std::string& gpus, int days, int64_t loads) {
  api::CompileCacheArchive made;
  made.metadata.ns = "ml";
  made.metadata.name = cache + "-" + std::to_string(days);
  made.cache = cache;
  made.key = {{api::kGpuProductPart, product}, {api::kGpuCountPart, gpus}};
  made.head = {.manifest_digest = "sha256:a",
               .generation = 3,
               .compressed_bytes = int64_t{days + 9} << 20,
               .files = 128,
               .compile_seconds = 170,
               .saved_at = format_time(kNow - std::chrono::hours(24 * days + 3))};
  made.loads.exact = loads;
  if (loads > 0) made.last_used_time = format_time(kNow - std::chrono::hours(days));
  return made;
}

api::CompileCache cache(const std::string& name, int64_t seconds, api::LoadCounters loads) {
  api::CompileCache made;
  made.metadata.ns = "ml";
  made.metadata.name = name;
  made.status.conditions = {{.type = api::kReadyCondition, .status = "True", .reason = "Ready"}};
  made.metadata.creation_time = "2026-10-03T09:00:00Z";
  made.status.seconds_saved = seconds;
  made.status.loads = loads;
  made.status.total_bytes = int64_t{90} << 20;
  return made;
}

api::RecentPod pod(const std::string& name, const std::string& load, const std::string& reason) {
  return {.pod = name,
          .load = load,
          .effect = "full",
          .reason = reason,
          .time = "2026-11-24T11:00:00Z"};
}

// How long the loader and the compiler took.
api::RecentPod timed(api::RecentPod pod, double load_seconds, double compile_seconds) {
  pod.milliseconds = std::llround(load_seconds * 1000);
  pod.compile_milliseconds = std::llround(compile_seconds * 1000);
  return pod;
}

std::vector<HistoryPoint> two_weeks() {
  const int64_t end =
      std::chrono::duration_cast<std::chrono::seconds>(kNow.time_since_epoch()).count();
  std::vector<HistoryPoint> points;
  for (int64_t i = 0; i < 56; ++i) {
    const bool night = i % 4 == 1;
    const double starts = night ? 0 : 9 + 5 * std::sin(static_cast<double>(i));
    // A roll-out on the sixth day, without a prewarm.
    const double share = i < 3 ? 0.2 : i == 22 || i == 23 ? 0.45 : 0.96;
    points.push_back({end - (55 - i) * kHistoryStepSeconds, starts * share, starts});
  }
  return points;
}

// The largest of them.
api::CompileCache llama() {
  api::CompileCache made = cache("llama", 81'340, {.exact = 431, .compatible = 22, .missing = 31});
  made.status.recent = {timed(pod("llama-7c9d-x2x7k", "none", "no_archive"), 0.2, 171.6),
                        timed(pod("llama-7c9d-9fk2p", "none", "no_archive"), 0.2, 169.9),
                        pod("llama-7c9d-qq4mz", "failed", "timeout"),
                        timed(pod("llama-7c9d-b8w5t", "exact", ""), 3.2, 0.6),
                        timed(pod("llama-7c9d-h7c2d", "exact", ""), 3.4, 0.7),
                        timed(pod("llama-7c9d-m4v9s", "exact", ""), 3.3, 0)};
  made.status.effect = {.full = 441, .partial = 9, .none = 3};
  made.status.saves = {.committed = 6};
  made.status.active_pods = 24;
  made.status.store = "claim caches";
  return made;
}

std::vector<api::CompileCacheArchive> all_archives() {
  return {
      archive("llama", kH100, "8", 0, 210),       archive("llama", kH100, "8", 4, 120),
      archive("llama", kH100, "8", 19, 63),       archive("llama", kH200, "8", 2, 40),
      archive("llama", kH200, "8", 45, 20),       archive("text-encoder", kH100, "1", 1, 41),
      archive("text-encoder", kH200, "1", 3, 20), archive("text-encoder", "NVIDIA-L4", "1", 9, 0)};
}

Report example() {
  api::CompileCache encoder = cache("text-encoder", 9'120, {.exact = 61, .missing = 5});
  encoder.status.recent = {timed(pod("text-encoder-5f6b-j8n4q", "none", "no_archive"), 0.1, 38.2),
                           timed(pod("text-encoder-5f6b-t2m9x", "exact", ""), 1.1, 0.2)};
  api::CompileCache batch = cache("nightly-batch", 0, {.missing = 4, .failed = 2});
  batch.status.conditions = {
      {.type = api::kReadyCondition, .status = "False", .reason = "ClaimNotFound"},
      {.type = api::kStorageReadyCondition,
       .status = "False",
       .reason = "ClaimNotFound",
       .message = "there is no claim \"caches\"; create it"}};
  batch.status.recent = {pod("nightly-batch-28411-r7", "failed", "registry_unreachable")};
  const std::vector<api::CompileCacheArchive> archives = all_archives();
  Report report = report_of({overview_of(llama(), archives), overview_of(encoder, archives),
                             overview_of(batch, archives)},
                            "", kNow);
  report.cluster = "prod-eu";
  report.gpu_hour_price = {.amount = 2.5};
  report.history = {.source = "https://prometheus.example.com", .points = two_weeks()};
  return report;
}

Report hostile() {
  const std::string evil = "\"'><script>window.hacked = 1</script><img src=x onerror=hacked()>";
  const std::string longest(300, 'x');
  CacheOverview overview;
  overview.ns = evil;
  overview.name = longest;
  overview.ready = evil;
  overview.seconds_saved = INT64_MAX;
  overview.loads = {.exact = INT64_MAX, .missing = INT64_MAX};
  overview.wrong = {{evil, longest, evil + longest}};
  overview.recent_pods = INT64_MAX;
  overview.cold = {
      {.pods = INT64_MAX, .reason = longest, .why = evil, .change = evil + longest, .pod = evil}};
  overview.starts = {INT64_MAX, INT64_MAX, 1e9, 1e300};
  overview.archives = {{.name = evil, .gpu_product = longest, .bytes = INT64_MAX},
                       {.name = longest, .gpu_product = evil, .saved_at = evil}};
  Report report = report_of({overview, overview}, evil, kNow);
  report.cluster = longest + evil;
  report.gpu_hour_price = {.amount = 1e6, .currency = "EUR"};
  report.history = {.source = "https://" + longest + evil, .points = {{0, 1e11, 9e11}}};
  return report;
}

Report failed() {
  CacheOverview overview{.ns = "ml", .name = "llama", .ready = "True"};
  overview.unread = "listing CompileCacheArchives: forbidden";
  Report report = report_of({overview}, "ml", kNow);
  report.history = {.source = "http://prometheus:9090",
                    .error = "asking Prometheus at http://prometheus:9090: no answer"};
  return report;
}

}  // namespace
}  // namespace compilecache::cli

int main(int argc, char** argv) {
  using namespace compilecache::cli;
  const std::string kind = argc == 2 ? argv[1] : "";
  if (kind == "example") {
    std::cout << html_of(example());
  } else if (kind == "hostile") {
    std::cout << html_of(hostile());
  } else if (kind == "status") {
    std::cout << text_of(overview_of(llama(), all_archives()), kNow);
  } else if (kind == "empty") {
    std::cout << html_of(report_of({}, "", kNow));
  } else if (kind == "failed") {
    std::cout << html_of(failed());
  } else {
    std::cerr << "report_sample example|hostile|status|empty|failed\n";
    return 2;
  }
  return 0;
}
