#include "store/index.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "archive/format.hpp"
#include "base/checked_json.hpp"

namespace compilecache::store {
namespace {

using Json = nlohmann::json;
using archive::kAnnotationGeneration;
using archive::kAnnotationName;
using archive::kAnnotationSavedAt;

// Enough for eight thousand archives; a store has a few for each GPU product. They take at most 30
// MB of memory.
constexpr size_t kMaxIndexValues = 200'000;

std::optional<IndexEntry> parse_entry(const Json& json) {
  const auto digest = string_member(json, "digest");
  const auto size = number_member(json, "size");
  if (!digest || !archive::is_digest(*digest) || !size) return std::nullopt;
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
  return {{"mediaType", archive::kManifestMediaType},
          {"artifactType", archive::kArtifactType},
          {"digest", entry.digest},
          {"size", entry.size},
          {"annotations", entry.annotations}};
}

bool comes_before(const IndexEntry& a, const IndexEntry& b) {
  if (a.name() != b.name()) return a.name() < b.name();
  if (a.generation() != b.generation()) return a.generation() > b.generation();
  return a.digest < b.digest;
}

// Times in UTC as RFC 3339 writes them can be compared as text.
std::string saved_at(const IndexEntry& entry) {
  const auto found = entry.annotations.find(kAnnotationSavedAt);
  return found == entry.annotations.end() ? "" : found->second;
}

bool is_saved_earlier(const IndexEntry& a, const IndexEntry& b) {
  return !saved_at(a).empty() && saved_at(a) < saved_at(b);
}

}  // namespace

void sort_entries(std::vector<IndexEntry>& entries) {
  std::sort(entries.begin(), entries.end(), comes_before);
}

void keep_newest(std::vector<IndexEntry>& entries) {
  sort_entries(entries);
  const auto older = [](const IndexEntry& a, const IndexEntry& b) {
    return !a.name().empty() && a.name() == b.name();
  };
  entries.erase(std::unique(entries.begin(), entries.end(), older), entries.end());
}

std::vector<std::span<const IndexEntry>> by_name(const std::vector<IndexEntry>& entries) {
  std::vector<std::span<const IndexEntry>> groups;
  for (size_t begin = 0; begin < entries.size();) {
    const std::string name = entries[begin].name();
    size_t end = begin + 1;
    while (!name.empty() && end < entries.size() && entries[end].name() == name) ++end;
    groups.push_back(std::span(entries).subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

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

Index parse_index(const std::string& text, const std::string& source) {
  Index index;
  auto json = parse_json(text, source, kMaxIndexValues);
  if (!json) {
    index.problems.push_back(json.error().message);
    return index;
  }
  const auto manifests = json->is_object() ? json->find("manifests") : json->end();
  if (manifests == json->end() || !manifests->is_array()) {
    index.problems.push_back(source + " has no list of manifests");
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
    index.problems.push_back(source +
                             " has entries without usable digest and size: " + std::to_string(bad));
  }
  keep_newest(index.entries);
  return index;
}

std::string index_text(const std::vector<IndexEntry>& entries) {
  std::vector<IndexEntry> sorted = entries;
  std::sort(sorted.begin(), sorted.end(), comes_before);
  Json manifests = Json::array();
  for (const IndexEntry& entry : sorted) manifests.push_back(entry_json(entry));
  const Json json = {{"schemaVersion", 2},
                     {"mediaType", archive::kIndexMediaType},
                     {"manifests", std::move(manifests)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status check_entry(const IndexEntry& entry, const std::string& store) {
  if (!entry.name().empty()) return {};
  return fail(ErrorCode::kInvalid, "adding " + entry.digest + " to the index of " + store +
                                       ": it has no " + kAnnotationName);
}

bool put_entry(std::vector<IndexEntry>& entries, const IndexEntry& entry) {
  const auto same = [&](const IndexEntry& other) { return other.name() == entry.name(); };
  const auto found = std::find_if(entries.begin(), entries.end(), same);
  if (found == entries.end()) {
    entries.push_back(entry);
  } else if (found->generation() <= entry.generation() || is_saved_earlier(*found, entry)) {
    *found = entry;
  } else {
    return false;
  }
  return true;
}

Status extend_entry(std::vector<IndexEntry>& entries, const std::string& expected,
                    const IndexEntry& entry) {
  const auto same = [&](const IndexEntry& other) { return other.name() == entry.name(); };
  const auto found = std::find_if(entries.begin(), entries.end(), same);
  const std::string present = found == entries.end() ? "" : found->digest;
  if (present != expected) {
    return fail(ErrorCode::kConflict, "archive " + entry.name() +
                                          " was saved by somebody else, as " +
                                          (present.empty() ? "nothing" : present));
  }
  if (found == entries.end()) {
    entries.push_back(entry);
  } else {
    *found = entry;
  }
  return {};
}

}  // namespace compilecache::store
