#include "agent/index_lookup.hpp"

#include <sys/utsname.h>

#include <charconv>
#include <tuple>
#include <utility>

#include "archive/format.hpp"
#include "base/log.hpp"
#include "store/offline_index.hpp"

namespace compilecache::agent {
namespace {

// An index may name thousands.
constexpr size_t kToldUnreadable = 10;

api::ArchiveKey key_of(const store::IndexEntry& entry) {
  const std::string_view prefix = archive::kAnnotationKeyPrefix;
  api::ArchiveKey key;
  for (const auto& [name, value] : entry.annotations) {
    if (name.starts_with(prefix)) key[name.substr(prefix.size())] = value;
  }
  return key;
}

std::string fmt_seconds(double seconds) {
  char text[32];
  const auto written =
      std::to_chars(text, text + sizeof(text), seconds, std::chars_format::fixed, 3);
  return {text, written.ptr};
}

std::string saved_at(const store::IndexEntry& entry) {
  const auto found = entry.annotations.find(archive::kAnnotationSavedAt);
  return found == entry.annotations.end() ? "" : found->second;
}

Result<std::string> noted_product(store::Store& store, const std::string& node) {
  if (const store::OfflineIndex* index = store.offline_index()) return index->node_product(node);
  return fail(ErrorCode::kNotFound, store.describe() + " keeps no notes of nodes");
}

}  // namespace

std::string architecture() {
  utsname info{};
  ::uname(&info);
  const std::string machine = info.machine;
  if (machine == "x86_64") return "amd64";
  if (machine == "aarch64") return "arm64";
  return machine;
}

Result<api::ArchiveKey> local_key(const api::AgentConfig& config, store::Store& store,
                                  const std::string& node) {
  api::NodeFacts facts;
  facts.architecture = architecture();
  if (!config.key_basis.gpu_resource.empty() && !config.key_basis.claims) {
    const auto product = noted_product(store, node);
    if (!product) {
      return fail(ErrorCode::kUnavailable,
                  "finding the archive without the operator: no save has noted the GPU product of "
                  "node " +
                      node + " on the volume yet (" + product.error().message + ")");
    }
    facts.gpu_product = *product;
  }
  return api::make_key(config.key_basis, facts);
}

std::optional<IndexMatch> find_in_index(const store::Index& index, const IndexWish& wish) {
  std::optional<IndexMatch> best;
  // An exact key first, then what is known to fit, then what was saved last: RFC 3339 in UTC sorts
  // as text.
  std::tuple<bool, api::CpuFit, std::string> rank;
  for (const store::IndexEntry& entry : index.entries) {
    const api::ArchiveKey theirs = key_of(entry);
    const bool exact = api::is_same_but_cpu(theirs, wish.key);
    if (!exact && !(wish.compatible_too && api::is_compatible(theirs, wish.key))) continue;
    const api::CpuFit fit = api::cpu_fit(theirs, wish.host_cpu);
    if (fit == api::CpuFit::kOther || (fit == api::CpuFit::kUnproven && !wish.may_prove)) continue;
    // With another image the latest archive is as good as one for exactly this kind of host.
    const api::CpuFit counted = !exact && fit == api::CpuFit::kOwn ? api::CpuFit::kAny : fit;
    std::tuple<bool, api::CpuFit, std::string> its{exact, counted, saved_at(entry)};
    if (best && its <= rank) continue;
    rank = std::move(its);
    best = IndexMatch{entry, theirs, exact ? api::Match::kExact : api::Match::kCompatible};
  }
  return best;
}

std::optional<IndexMatch> find_of_key(const store::Index& index, const api::ArchiveKey& key) {
  for (const store::IndexEntry& entry : index.entries) {
    if (key_of(entry) == key) return IndexMatch{entry, key, api::Match::kExact};
  }
  return std::nullopt;
}

std::string why_not_found(const store::Index& index, const IndexWish& wish) {
  std::string why = "no_archive";
  for (const store::IndexEntry& entry : index.entries) {
    const api::ArchiveKey theirs = key_of(entry);
    if (!api::is_same_but_cpu(theirs, wish.key)) continue;
    const api::CpuFit fit = api::cpu_fit(theirs, wish.host_cpu);
    if (fit == api::CpuFit::kOther) return "cpu_mismatch";
    if (fit == api::CpuFit::kUnproven) why = "cpu_unknown";
  }
  return why;
}

api::FoundArchive found_archive(const store::IndexEntry& entry, const archive::ArchiveInfo& info) {
  return {.key = key_of(entry),
          .manifest_digest = entry.digest,
          .generation = static_cast<int64_t>(entry.generation()),
          .saved_at = saved_at(entry),
          .blobs = info.blobs(),
          .compressed_bytes = static_cast<int64_t>(info.compressed_bytes),
          .plain_bytes = static_cast<int64_t>(info.plain_bytes),
          .files = static_cast<int64_t>(info.files),
          .layers = static_cast<int64_t>(info.layers.size())};
}

bool is_lost(const Error& error) {
  // With a reason it is the registry that is amiss: nothing is said of the archive.
  const bool invalid = error.code == ErrorCode::kInvalid && error.reason.empty();
  return invalid || error.code == ErrorCode::kNotFound || error.code == ErrorCode::kCorrupt ||
         error.code == ErrorCode::kTooLarge;
}

Result<std::vector<store::IndexEntry>> saves_there(store::Store& store) {
  auto there = store::saves_in(store);
  if (!there) return unexpected(there.error());
  // A damaged index is as good as none; what a registry cannot read it still has.
  if (store.offline_index() == nullptr && !there->problems.empty())
    return fail(ErrorCode::kUnavailable, there->problems.front());
  return std::move(there->entries);
}

Result<std::vector<api::FoundArchive>> archives_there(
    store::Store& store, const std::vector<store::IndexEntry>& entries) {
  std::vector<api::FoundArchive> found;
  size_t unreadable = 0;
  for (const store::IndexEntry& entry : entries) {
    const auto manifest = archive::read_manifest(store, entry.digest);
    const auto config = manifest ? archive::read_config(store, *manifest)
                                 : Result<archive::Config>(unexpected(manifest.error()));
    if (!config && !is_lost(config.error())) return unexpected(config.error());
    if (!config) {
      if (++unreadable <= kToldUnreadable) {
        log_warn("an archive of the index cannot be read",
                 {{"digest", entry.digest}, {"error", config.error().message}});
      }
      continue;
    }
    found.push_back(found_archive(entry, archive::describe(*manifest, *config)));
  }
  if (unreadable > kToldUnreadable) {
    log_warn("archives of the index cannot be read", {{"count", std::to_string(unreadable)}});
  }
  return found;
}

archive::Annotations index_annotations(const std::string& archive, int64_t generation,
                                       const std::string& saved_at, const api::ArchiveKey& key,
                                       double compile_seconds) {
  archive::Annotations annotations{{archive::kAnnotationName, archive},
                                   {archive::kAnnotationGeneration, std::to_string(generation)}};
  if (!saved_at.empty()) annotations[archive::kAnnotationSavedAt] = saved_at;
  if (compile_seconds > 0) {
    annotations[archive::kAnnotationCompileSeconds] = fmt_seconds(compile_seconds);
  }
  for (const auto& [part, value] : key) {
    annotations[archive::kAnnotationKeyPrefix + part] = value;
  }
  return annotations;
}

}  // namespace compilecache::agent
