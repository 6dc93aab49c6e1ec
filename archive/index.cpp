#include "archive/index.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "archive/fs.hpp"
#include "base/checked_json.hpp"

namespace compilecache::archive {
namespace {

using Json = nlohmann::json;

constexpr const char* kIndexName = "index.json";
constexpr uint64_t kMaxIndexBytes = 8ULL << 20;
// Eight thousand archives; a store keeps a few for each GPU product. In memory 30 MB at most.
constexpr size_t kMaxIndexValues = 200'000;

std::optional<IndexEntry> parse_entry(const Json& json) {
  const auto digest = string_member(json, "digest");
  const auto size = number_member(json, "size");
  if (!digest || !is_digest(*digest) || !size) return std::nullopt;
  IndexEntry entry{*digest, *size, {}};
  const auto annotations = json.find("annotations");
  if (annotations != json.end() && annotations->is_object()) {
    for (const auto& [key, value] : annotations->items()) {
      if (value.is_string()) entry.annotations[key] = value.get<std::string>();
    }
  }
  return entry;
}

Json entry_json(const IndexEntry& entry) {
  return {{"mediaType", kManifestMediaType},
          {"artifactType", kArtifactType},
          {"digest", entry.digest},
          {"size", entry.size},
          {"annotations", entry.annotations}};
}

bool comes_before(const IndexEntry& a, const IndexEntry& b) {
  if (a.name() != b.name()) return a.name() < b.name();
  if (a.generation() != b.generation()) return a.generation() > b.generation();
  return a.digest < b.digest;
}

// RFC 3339 in UTC sorts as text.
std::string saved_at(const IndexEntry& entry) {
  const auto found = entry.annotations.find(kAnnotationSavedAt);
  return found == entry.annotations.end() ? "" : found->second;
}

bool is_saved_earlier(const IndexEntry& a, const IndexEntry& b) {
  return !saved_at(a).empty() && saved_at(a) < saved_at(b);
}

// Sorted, and of each name the highest generation.
void keep_newest(std::vector<IndexEntry>& entries) {
  std::sort(entries.begin(), entries.end(), comes_before);
  const auto older = [](const IndexEntry& a, const IndexEntry& b) {
    return !a.name().empty() && a.name() == b.name();
  };
  entries.erase(std::unique(entries.begin(), entries.end(), older), entries.end());
}

Index parse_index(const std::string& text, const std::string& path) {
  Index index;
  auto json = parse_json(text, path, kMaxIndexValues);
  if (!json) {
    index.problems.push_back(json.error().message);
    return index;
  }
  const auto manifests = json->is_object() ? json->find("manifests") : json->end();
  if (manifests == json->end() || !manifests->is_array()) {
    index.problems.push_back(path + " has no list of manifests");
    return index;
  }
  size_t bad = 0;
  for (const Json& item : *manifests) {
    if (auto entry = parse_entry(item)) {
      index.entries.push_back(std::move(*entry));
    } else {
      ++bad;
    }
  }
  if (bad > 0) {
    index.problems.push_back(path +
                             " has entries without usable digest and size: " + std::to_string(bad));
  }
  keep_newest(index.entries);
  return index;
}

// What an update starts from. An index that is missing or damaged is replaced; one that cannot be
// read now is not, as the entries of others would go with it.
Result<std::vector<IndexEntry>> entries_to_update(const std::string& store) {
  const std::string path = store + "/" + kIndexName;
  auto text = read_small_file(path, kMaxIndexBytes);
  if (text) return parse_index(*text, path).entries;
  const ErrorCode code = text.error().code;
  // "Not found" is also what another client has just replaced under us (ESTALE).
  struct stat info {};
  const bool there = ::lstat(path.c_str(), &info) == 0 || errno != ENOENT;
  if (code == ErrorCode::kIo || code == ErrorCode::kForbidden ||
      (code == ErrorCode::kNotFound && there))
    return unexpected(text.error().with("updating the index of store " + store));
  return std::vector<IndexEntry>{};
}

}  // namespace

std::string IndexEntry::name() const {
  const auto found = annotations.find(kAnnotationName);
  return found == annotations.end() ? "" : found->second;
}

uint64_t IndexEntry::generation() const {
  const auto found = annotations.find(kAnnotationGeneration);
  if (found == annotations.end()) return 0;
  const std::string& text = found->second;
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() ? value : 0;
}

Index read_index(const std::string& store) {
  const std::string path = store + "/" + kIndexName;
  auto text = read_small_file(path, kMaxIndexBytes);
  if (text) return parse_index(*text, path);
  Index index;
  index.problems.push_back(text.error().message);
  return index;
}

Status write_index(const std::string& store, const std::vector<IndexEntry>& entries) {
  std::vector<IndexEntry> sorted = entries;
  std::sort(sorted.begin(), sorted.end(), comes_before);
  Json manifests = Json::array();
  for (const IndexEntry& entry : sorted) manifests.push_back(entry_json(entry));
  const Json json = {
      {"schemaVersion", 2}, {"mediaType", kIndexMediaType}, {"manifests", std::move(manifests)}};
  auto written = replace_file(store, kIndexName,
                              json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (!written) return unexpected(written.error().with("writing the index of store " + store));
  return {};
}

Status upsert_index_entry(const std::string& store, const IndexEntry& entry) {
  if (entry.name().empty()) {
    return fail(ErrorCode::kInvalid, "adding " + entry.digest + " to the index of " + store +
                                         ": it has no " + kAnnotationName);
  }
  auto read = entries_to_update(store);
  if (!read) return unexpected(read.error());
  std::vector<IndexEntry> entries = std::move(*read);
  const auto same = [&](const IndexEntry& other) { return other.name() == entry.name(); };
  const auto found = std::find_if(entries.begin(), entries.end(), same);
  if (found == entries.end()) {
    entries.push_back(entry);
  } else if (found->generation() <= entry.generation() || is_saved_earlier(*found, entry)) {
    *found = entry;
  } else {
    return {};  // a later save was faster
  }
  return write_index(store, entries);
}

}  // namespace compilecache::archive
