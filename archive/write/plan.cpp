#include "archive/write/plan.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace compilecache::archive {
namespace {

using Paths = std::unordered_set<std::string_view>;

// Identifies a content by hash and mode, as hard links in a tar share the mode.
using ContentKey = std::pair<ContentHash, bool>;

void add_parents(std::string_view path, Paths& directories) {
  for (size_t slash = path.rfind('/'); slash != std::string_view::npos; slash = path.rfind('/')) {
    path = path.substr(0, slash);
    if (!directories.insert(path).second) return;
  }
}

bool is_beneath(std::string_view path, const Paths& files) {
  for (size_t slash = path.rfind('/'); slash != std::string_view::npos; slash = path.rfind('/')) {
    path = path.substr(0, slash);
    if (files.contains(path)) return true;
  }
  return false;
}

bool same_content(const FileEntry& held, const Source& source) {
  return held.size == source.stamp.size && held.executable == source.stamp.executable &&
         (held.size == 0 || (source.hash && *source.hash == held.sha256));
}

ContentHash empty_hash() {
  return *parse_content_hash("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// Returns which of the parent's entries no source replaces.
std::vector<bool> untouched(const std::vector<FileEntry>& held,
                            const std::vector<Source>& sources) {
  Paths paths;
  Paths directories;
  for (const Source& source : sources) {
    paths.insert(source.file.path);
    add_parents(source.file.path, directories);
  }
  std::vector<bool> stays;
  stays.reserve(held.size());
  for (const FileEntry& file : held) {
    stays.push_back(!paths.contains(file.path) && !directories.contains(file.path) &&
                    !is_beneath(file.path, paths));
  }
  return stays;
}

// The places of contents: in the parent's layers, then in the new one.
class StoredContents {
 public:
  explicit StoredContents(const std::vector<FileEntry>& held) {
    for (const FileEntry& file : held) add(file);
  }
  // The entry's paths must outlive this object.
  void add(const FileEntry& file) { add(file, file.stored_as()); }
  void add(const FileEntry& file, const std::string& stored_as) {
    if (file.size > 0) {
      known_.try_emplace({file.sha256, file.executable}, Stored{file.layer, &stored_as});
    }
  }
  // Makes `file` refer to an equal content, if there is one.
  bool refer(FileEntry& file) const {
    const auto found = known_.find({file.sha256, file.executable});
    if (file.size == 0 || found == known_.end()) return false;
    file.layer = found->second.layer;
    file.from = *found->second.path == file.path ? "" : *found->second.path;
    return true;
  }

 private:
  struct Stored {
    uint32_t layer;
    const std::string* path;
  };
  std::map<ContentKey, Stored> known_;
};

FileEntry entry_of(const Source& source, uint32_t layer) {
  FileEntry file;
  file.path = source.file.path;
  file.size = source.stamp.size;
  file.executable = source.stamp.executable;
  file.sha256 = file.size == 0 ? empty_hash() : source.hash.value_or(ContentHash{});
  file.layer = layer;
  file.modified_ns = source.stamp.modified_ns;
  return file;
}

// The order in which files are packed. Neighbours compress well together if they have the same kind
// and size, whatever their folders. Large files come first.
std::pair<std::string_view, uint64_t> likely_alike(const FileEntry& file) {
  const std::string_view path = file.path;
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool extension =
      dot != std::string_view::npos && (slash == std::string_view::npos || dot > slash);
  return {extension ? path.substr(dot) : std::string_view(), ~file.size};
}

// Returns the entries of files that the parent does not have in this form, and marks those of the
// parent's that stay.
std::vector<FileEntry> added_entries(Config& parent, const std::vector<Source>& sources,
                                     std::vector<bool>& stays, Plan& plan) {
  std::vector<FileEntry> added;
  StoredContents stored(parent.files);
  for (const Source& source : sources) {
    const FileEntry* held = parent.find(source.file.path);
    if (held != nullptr && same_content(*held, source)) {
      const auto at = static_cast<size_t>(held - parent.files.data());
      stays[at] = true;
      // A changed time alone is no reason to save, but is saved along with other changes.
      parent.files[at].modified_ns = source.stamp.modified_ns;
      continue;
    }
    ++plan.added_files;
    plan.added_plain_bytes += source.stamp.size;
    FileEntry file = entry_of(source, plan.new_layer);
    if (source.hash && !stored.refer(file)) stored.add(file, source.file.path);
    added.push_back(std::move(file));
  }
  return added;
}

// The entries are moved from one list to the other, as two lists of the largest number of files
// would take too much memory.
std::vector<FileEntry> take_union(Config& parent, const std::vector<Source>& sources, Plan& plan) {
  std::vector<bool> stays = untouched(parent.files, sources);
  std::vector<FileEntry> added = added_entries(parent, sources, stays, plan);
  std::vector<FileEntry> files = std::exchange(parent.files, {});
  size_t at = 0;
  std::erase_if(files, [&](const FileEntry&) { return !stays[at++]; });
  files.reserve(files.size() + added.size());
  std::move(added.begin(), added.end(), std::back_inserter(files));
  std::sort(files.begin(), files.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
  return files;
}

// Finds the entries whose content is packed into the new layer, and those that refer to such a
// content.
void find_packs(const std::vector<Source>& sources, Plan& plan) {
  std::unordered_map<std::string_view, size_t> pack_of;  // path -> pack
  size_t source = 0;
  for (size_t i = 0; i < plan.files.size(); ++i) {
    const FileEntry& file = plan.files[i];
    if (file.layer != plan.new_layer || !file.from.empty()) continue;
    while (sources[source].file.path != file.path) ++source;  // both are sorted
    pack_of[file.path] = plan.packs.size();
    plan.packs.push_back({source, i, {}});
  }
  for (size_t i = 0; i < plan.files.size(); ++i) {
    const FileEntry& file = plan.files[i];
    if (file.layer == plan.new_layer && !file.from.empty())
      plan.packs[pack_of.at(file.from)].links.push_back(i);
  }
  std::stable_sort(plan.packs.begin(), plan.packs.end(), [&](const auto& a, const auto& b) {
    return likely_alike(plan.files[a.file]) < likely_alike(plan.files[b.file]);
  });
}

}  // namespace

Candidates find_candidates(const Config& parent, const std::vector<Source>& sources) {
  std::unordered_set<uint64_t> parent_sizes;
  for (const FileEntry& file : parent.files) parent_sizes.insert(file.size);
  std::unordered_map<uint64_t, std::vector<size_t>> by_size;
  Candidates candidates;
  for (size_t i = 0; i < sources.size(); ++i) {
    const uint64_t size = sources[i].stamp.size;
    if (size == 0 || sources[i].hash) continue;
    if (parent_sizes.contains(size)) {
      candidates.hash.push_back(i);
    } else if (size > kWholeBytes) {
      by_size[size].push_back(i);
    }
  }
  for (auto& [size, group] : by_size) {
    if (group.size() > 1) candidates.same_size.push_back(std::move(group));
  }
  return candidates;
}

Plan make_plan(Config& parent, const std::vector<Source>& sources) {
  Plan plan;
  plan.new_layer = static_cast<uint32_t>(parent.layers.size());
  plan.files = take_union(parent, sources, plan);
  find_packs(sources, plan);
  return plan;
}

size_t kept_layers(const Config& parent, const Plan& plan) {
  const size_t layers = parent.layers.size();
  uint64_t stored = 0;
  for (const LayerStats& layer : parent.layers) stored += layer.content_bytes;
  // By layer, with the new one.
  std::vector<uint64_t> used(layers + 1, 0);
  std::set<std::pair<uint32_t, std::string_view>> counted;
  for (const FileEntry& file : plan.files) {
    if (file.layer != plan.new_layer) {
      if (counted.emplace(file.layer, file.stored_as()).second) used[file.layer] += file.size;
    } else if (file.from.empty()) {
      used[layers] += file.size;
      stored += file.size;
    }
  }
  if (stored > 2 * std::accumulate(used.begin(), used.end(), uint64_t{0})) return 0;
  if (plan.packs.empty() || layers < kMaxLayers) return layers;
  size_t kept = layers - 1;
  uint64_t written = used[layers] + used[kept];
  for (; kept > 0 && used[kept - 1] <= written; --kept) written += used[kept - 1];
  return kept;
}

Status check_limits(const std::vector<FileEntry>& files, const Limits& limits) {
  uint64_t directories = 0;
  uint64_t path_bytes = 0;
  uint64_t plain_bytes = 0;
  std::string_view previous;
  for (const FileEntry& file : files) {
    plain_bytes += file.size;
    // Counted twice, as its content may be stored under another path.
    path_bytes += 2 * file.path.size();
    directories += new_directories(previous, file.path);
    previous = file.path;
  }
  const auto check = [](uint64_t count, const char* what, uint64_t most) -> Status {
    if (count <= most) return {};
    return fail(ErrorCode::kTooLarge, "an archive of " + std::to_string(count) + " " + what +
                                          ": allowed are " + std::to_string(most));
  };
  if (auto few = check(files.size(), "files", limits.max_entries); !few) return few;
  if (auto few = check(path_bytes, "bytes of paths", limits.max_path_bytes); !few) return few;
  if (auto few = check(plain_bytes, "bytes", limits.max_plain_bytes); !few) return few;
  return check(directories, "directories", limits.max_directories);
}

}  // namespace compilecache::archive
