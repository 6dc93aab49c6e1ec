#include "operator/archives/rank_records.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

#include "frameworks/ranks.hpp"

namespace compilecache::controller {
namespace {

// Reports come from users' pods, and all records are in one object.
constexpr size_t kLongestMember = 128, kLongestDirectory = 256;
// The size of the records in the object, which etcd takes up to 1.5 MiB of. 256 pods with a rank
// each take 50 KiB.
constexpr size_t kMostBytes = 128U << 10;

using Names = std::set<std::string>;

std::map<std::string, Names> by_layout(const std::vector<std::string>& directories) {
  std::map<std::string, Names> layouts;
  for (const std::string& directory : directories) {
    const auto parsed = frameworks::parse_rank_directory(directory);
    if (!parsed || directory.size() > kLongestDirectory) continue;
    layouts[std::string(parsed->layout)].insert(std::string(parsed->rank));
  }
  return layouts;
}

// Returns whether the record is another one now. A pod reports more and more as it goes on; only
// another pod can agree or disagree.
bool merge(const std::string& pod_uid, const Names& used, api::RankRecord& record) {
  const bool same_pod = record.pod == pod_uid;
  Names all(record.ranks.begin(), record.ranks.end());
  const size_t before = all.size();
  all.insert(used.begin(), used.end());
  if (all.size() > before) {
    record.moves = record.moves || !same_pod || all.size() > api::kMostRanksOfMember;
    record.ranks.assign(all.begin(), all.end());
    record.ranks.resize(std::min(record.ranks.size(), api::kMostRanksOfMember));
    record.pods = 1;
    record.pod = pod_uid;
    return true;
  }
  if (same_pod || record.moves || record.pods >= kPodsThatAgree) return false;
  // One that used fewer has perhaps ended early, and agrees with nothing.
  if (used.size() < all.size()) return false;
  ++record.pods;
  record.pod = pod_uid;
  return true;
}

// As JSON, about.
size_t size_of(const api::RankRecord& record) {
  constexpr size_t kNames = 80, kQuotes = 3;
  size_t size = kNames + record.member.size() + record.layout.size() + record.pod.size();
  for (const std::string& rank : record.ranks) size += rank.size() + kQuotes;
  return size;
}

// Those that changed last are kept.
void drop_surplus(std::vector<api::RankRecord>& records) {
  size_t kept = 0;
  size_t bytes = 0;
  for (auto record = records.rbegin(); record != records.rend(); ++record, ++kept) {
    bytes += size_of(*record);
    if (kept == api::kMostRankRecords || bytes > kMostBytes) break;
  }
  records.erase(records.begin(), records.end() - static_cast<std::ptrdiff_t>(kept));
}

}  // namespace

bool note_ranks(const std::string& member, const std::string& pod_uid,
                const std::vector<std::string>& directories,
                std::vector<api::RankRecord>& records) {
  if (member.empty() || member.size() > kLongestMember) return false;
  bool changed = false;
  for (const auto& reported : by_layout(directories)) {
    const auto found = std::find_if(records.begin(), records.end(), [&](const auto& record) {
      return record.member == member && record.layout == reported.first;
    });
    api::RankRecord record{.member = member, .layout = reported.first, .pod = pod_uid};
    if (found != records.end()) record = *found;
    if (!merge(pod_uid, reported.second, record)) continue;
    if (found != records.end()) records.erase(found);
    records.push_back(std::move(record));
    changed = true;
  }
  drop_surplus(records);
  return changed;
}

std::vector<std::string> own_ranks(const std::string& member,
                                   const std::vector<api::RankRecord>& records) {
  std::vector<std::string> directories;
  if (member.empty()) return directories;
  for (const api::RankRecord& record : records) {
    if (record.member != member || record.moves || record.pods < kPodsThatAgree) continue;
    for (const std::string& rank : record.ranks) directories.push_back(record.layout + "/" + rank);
  }
  return directories;
}

}  // namespace compilecache::controller
