#include "cli/report/report_model.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "base/time_format.hpp"

namespace compilecache::cli {
namespace {

// The numbers of a status are bounded, so that no sum of many overflows.
constexpr int64_t kMostCounted = 1'000'000'000'000;
int64_t counted(int64_t value) { return std::clamp<int64_t>(value, 0, kMostCounted); }

// GPUs of one pod.
int64_t gpus_of(const ArchiveRow& archive) {
  constexpr int64_t kMostGpus = 1024;
  const std::string& text = archive.gpus;
  int64_t gpus = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gpus);
  if (error == std::errc() && end == text.data() + text.size() && gpus >= 0) {
    return std::min(gpus, kMostGpus);
  }
  return archive.gpu_product.starts_with("cpu-") ? 0 : 1;
}

// The mean of the archives' GPUs, each weighed by what it has spared; where none has spared
// anything, or what it spared is not known, they count alike.
double gpus_of_a_pod(const std::vector<ArchiveRow>& archives) {
  double spared = 0, spared_gpus = 0, gpus = 0;
  for (const ArchiveRow& archive : archives) {
    const auto of_one = static_cast<double>(gpus_of(archive));
    const double weight = static_cast<double>(counted(archive.warm_loads)) *
                          std::clamp(archive.compile_seconds, 0.0, 1e9);
    spared += weight;
    spared_gpus += weight * of_one;
    gpus += of_one;
  }
  if (spared > 0) return spared_gpus / spared;
  return archives.empty() ? 1 : gpus / static_cast<double>(archives.size());
}

int64_t& age_counter(ArchiveAges& ages, const std::string& saved_at, WallTime now) {
  using std::chrono::hours;
  const auto then = parse_time(saved_at);
  if (!then) return ages.unknown;
  if (*then > now - hours(24)) return ages.day;
  if (*then > now - hours(7 * 24)) return ages.week;
  return *then > now - hours(30 * 24) ? ages.month : ages.older;
}

std::vector<ProductArchives> by_product(const std::vector<ReportedCache>& caches, WallTime now) {
  std::map<std::string, ProductArchives> found;
  for (const ReportedCache& cache : caches) {
    for (const ArchiveRow& archive : cache.overview.archives) {
      ProductArchives& product = found[archive.gpu_product];
      product.gpu_product = archive.gpu_product;
      ++product.archives;
      product.bytes += counted(archive.bytes);
      ++age_counter(product.ages, archive.saved_at, now);
    }
  }
  std::vector<ProductArchives> products;
  products.reserve(found.size());
  for (auto& [name, product] : found) products.push_back(std::move(product));
  return products;
}

void add_loads(api::LoadCounters& sum, const api::LoadCounters& more) {
  sum.exact += counted(more.exact);
  sum.compatible += counted(more.compatible);
  sum.missing += counted(more.missing);
  sum.failed += counted(more.failed);
}

void add_cold(Report& report, const CacheOverview& overview) {
  report.recent_pods += counted(overview.recent_pods);
  for (const ColdPods& cold : overview.cold) {
    const bool expected = cold_as_expected(cold.reason);
    (expected ? report.first_pods : report.faulty_pods) += counted(cold.pods);
    report.cold.push_back({overview.ns, overview.name, overview.recent_pods, cold, expected});
  }
}

void add_cache(Report& report, const CacheOverview& overview) {
  const int64_t seconds = counted(overview.seconds_saved);
  const double hours = static_cast<double>(seconds) * gpus_of_a_pod(overview.archives) / 3600;
  report.seconds_saved += seconds;
  report.gpu_hours_saved += hours;
  report.archives += static_cast<int64_t>(overview.archives.size());
  report.bytes += counted(overview.bytes);
  add_loads(report.loads, overview.loads);
  add_cold(report, overview);
  const auto created = parse_time(overview.created);
  if (created && (!report.since || *created < *report.since)) report.since = *created;
  const auto& told = report.unread;
  if (!overview.unread.empty() && std::count(told.begin(), told.end(), overview.unread) == 0) {
    report.unread.push_back(overview.unread);
  }
  report.caches.push_back({overview, hours});
}

}  // namespace

bool cold_as_expected(std::string_view reason) {
  constexpr std::string_view kExpected[] = {"no_archive", "group_cold", "cpu_mismatch", "refresh",
                                            "mode_refresh"};
  return std::find(std::begin(kExpected), std::end(kExpected), reason) != std::end(kExpected);
}

Report report_of(const std::vector<CacheOverview>& overviews, const std::string& ns, WallTime now) {
  Report report{.ns = ns, .made = now};
  for (const CacheOverview& overview : overviews) add_cache(report, overview);
  std::sort(report.caches.begin(), report.caches.end(), [](const auto& a, const auto& b) {
    return std::tie(b.overview.seconds_saved, a.overview.ns, a.overview.name) <
           std::tie(a.overview.seconds_saved, b.overview.ns, b.overview.name);
  });
  std::stable_sort(report.cold.begin(), report.cold.end(),
                   [](const auto& a, const auto& b) { return a.cold.pods > b.cold.pods; });
  report.products = by_product(report.caches, now);
  return report;
}

}  // namespace compilecache::cli
