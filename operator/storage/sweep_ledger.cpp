#include "operator/storage/sweep_ledger.hpp"

#include <algorithm>

#include "base/time_format.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

bool is_older(const api::CondemnedBlob& blob, milliseconds age, WallTime now) {
  const auto since = parse_time(blob.since);
  return since && now - *since >= age;
}

}  // namespace

std::set<std::string> referenced_digests(const std::vector<api::CompileCacheArchive>& archives) {
  std::set<std::string> digests;
  for (const api::CompileCacheArchive& archive : archives) {
    for (const api::ArchiveHead* head : {&archive.head, &archive.previous}) {
      if (!head->exists()) continue;
      digests.insert(head->manifest_digest);
      digests.insert(head->blobs.begin(), head->blobs.end());
    }
  }
  return digests;
}

std::vector<api::CondemnedBlob> condemn(const LedgerFacts& facts) {
  const auto is_told = [&](const std::string& digest) {
    return digest > facts.after && (facts.up_to.empty() || digest <= facts.up_to);
  };
  std::set<std::string> present(facts.inventory.begin(), facts.inventory.end());
  std::erase_if(present, [&](const std::string& digest) { return !is_told(digest); });
  const std::string now = format_time(facts.now);
  std::vector<api::CondemnedBlob> listed;
  std::set<std::string> known;
  for (const api::CondemnedBlob& blob : facts.listed) {
    if (facts.referenced.contains(blob.digest) || facts.kept.contains(blob.digest)) continue;
    const bool gone = is_told(blob.digest) && !present.contains(blob.digest);
    if (gone && !facts.saves_in_flight) continue;
    if (!known.insert(blob.digest).second) continue;
    const bool again = is_told(blob.digest) && facts.handed.contains(blob.digest);
    listed.push_back({blob.digest, again ? now : blob.since});
  }
  for (const std::string& digest : present) {
    if (listed.size() >= facts.limit) break;
    if (facts.referenced.contains(digest) || known.contains(digest)) continue;
    if (facts.kept.contains(digest)) continue;
    listed.push_back({digest, now});
  }
  return listed;
}

std::vector<std::string> deletable_digests(const std::vector<api::CondemnedBlob>& listed,
                                           const std::set<std::string>& referenced, WallTime now,
                                           milliseconds grace) {
  std::vector<std::string> digests;
  for (const api::CondemnedBlob& blob : listed) {
    if (!referenced.contains(blob.digest) && is_older(blob, grace, now)) {
      digests.push_back(blob.digest);
    }
  }
  return digests;
}

}  // namespace compilecache::controller
