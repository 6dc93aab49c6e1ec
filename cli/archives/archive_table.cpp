#include "cli/archives/archive_table.hpp"

#include <nlohmann/json.hpp>

#include "api/summary.hpp"
#include "cli/archives/counters_json.hpp"
#include "cli/text/page.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

std::string part(const api::CompileCacheArchive& archive, const std::string& name) {
  const auto found = archive.key.find(name);
  return found == archive.key.end() ? "" : found->second;
}

std::vector<std::string> header(bool wide) {
  std::vector<std::string> cells{"CACHE", "ARCHIVE", "GPU PRODUCT", "GENERATION", "SIZE",
                                 "IMAGE", "AGE",     "LAST USED",   "EFFECT",     "STATE"};
  if (wide) cells.insert(cells.end(), {"LOADS", "FILES", "PLAIN", "SAVED BY", "DIGEST"});
  return cells;
}

std::vector<std::string> row_of(const api::CompileCacheArchive& archive, WallTime now, bool wide) {
  const api::ArchiveHead& head = archive.head;
  std::vector<std::string> cells{archive.cache,
                                 archive.metadata.name,
                                 or_dash(part(archive, api::kGpuProductPart)),
                                 std::to_string(head.generation),
                                 size_text(head.compressed_bytes),
                                 or_dash(part(archive, "Image")),
                                 age_text(head.saved_at, now),
                                 age_text(archive.last_used_time, now),
                                 or_dash(api::summary(archive.effect)),
                                 or_dash(state_of(archive))};
  if (wide) {
    cells.insert(cells.end(),
                 {or_dash(api::summary(archive.loads)), std::to_string(head.files),
                  size_text(head.plain_bytes), or_dash(head.saved_by), head.manifest_digest});
  }
  return cells;
}

}  // namespace

std::string state_of(const api::CompileCacheArchive& archive) {
  if (api::is_corrupt(archive)) return api::kCorruptCondition;
  if (api::is_suspect(archive)) return api::kSuspectCondition;
  return archive.lock.holder.empty() ? "" : "saved by " + archive.lock.pod + " now";
}

std::string table_of(const std::vector<api::CompileCacheArchive>& archives, WallTime now, bool wide,
                     Namespaces namespaces) {
  std::vector<std::vector<std::string>> rows{header(wide)};
  for (const auto& archive : archives) rows.push_back(row_of(archive, now, wide));
  for (size_t i = 0; namespaces == Namespaces::kAll && i < rows.size(); ++i) {
    rows[i].insert(rows[i].begin(), i == 0 ? "NAMESPACE" : archives[i - 1].metadata.ns);
  }
  Page page;
  page.table(rows, Page::Place::kAlone);
  return page.take();
}

json json_of(const std::vector<api::CompileCacheArchive>& archives) {
  json all = json::array();
  for (const auto& archive : archives) {
    const api::ArchiveHead& head = archive.head;
    all.push_back({{"namespace", archive.metadata.ns},
                   {"cache", archive.cache},
                   {"name", archive.metadata.name},
                   {"key", archive.key},
                   {"gpuProduct", part(archive, api::kGpuProductPart)},
                   {"image", part(archive, "Image")},
                   {"digest", head.manifest_digest},
                   {"generation", head.generation},
                   {"bytes", head.compressed_bytes},
                   {"plainBytes", head.plain_bytes},
                   {"files", head.files},
                   {"compileSeconds", head.compile_seconds},
                   {"savedAt", head.saved_at},
                   {"savedBy", head.saved_by},
                   {"lastUsed", archive.last_used_time},
                   {"loads", json_of(archive.loads)},
                   {"effect", json_of(archive.effect)},
                   {"state", state_of(archive)}});
  }
  return all;
}

}  // namespace compilecache::cli
