#include "frameworks/rules.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.hpp"

namespace compilecache::frameworks {
namespace {

// The first `count` components of `path`, as they stand in it.
std::string_view prefix(std::string_view path, const std::vector<std::string_view>& parts,
                        size_t count) {
  const std::string_view last = parts[count - 1];
  return path.substr(0, static_cast<size_t>(last.data() + last.size() - path.data()));
}

std::string_view parent(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Rules::Rules(const Framework& framework)
    : name_(framework.name),
      never_pack_(compile(framework.never_pack)),
      not_compiled_(compile(framework.not_compiled)),
      named_by_content_(compile(framework.named_by_content)),
      temporary_(compile(framework.temporary)),
      build_directories_(compile(framework.build_directories)),
      elf_files_(compile(framework.elf_files)),
      stream_files_(compile(framework.stream_files)),
      only_from_warm_(compile(framework.only_from_warm)),
      index_files_(compile(framework.index_files)),
      must_agree_(compile(framework.must_agree)),
      portable_files_(compile(framework.portable_files)) {
  for (const auto& pattern : framework.entry_directories) entry_directories_.emplace_back(pattern);
  for (const auto& pattern : framework.entry_files) entry_files_.emplace_back(pattern);
  for (const auto& pattern : framework.derived_files) derived_files_.emplace_back(pattern);
  for (const auto& pattern : framework.rank_directories) rank_directories_.emplace_back(pattern);
  for (const auto& pattern : framework.unit_directories) unit_directories_.emplace_back(pattern);
  for (const auto& pattern : framework.key_factors) key_factors_.emplace_back(pattern);
  for (Pattern& pattern : compile(framework.key_factors)) never_pack_.push_back(std::move(pattern));
  for (const auto& completion : framework.completions) {
    completions_.push_back({Glob(completion.directory), split(completion.marker, '|')});
  }
}

std::vector<Rules::Pattern> Rules::compile(const std::vector<std::string>& patterns) {
  std::vector<Pattern> compiled;
  for (const std::string& pattern : patterns) {
    Glob glob(pattern);
    const bool by_name = glob.size() == 1;
    compiled.push_back({std::move(glob), by_name, pattern.ends_with('/')});
  }
  return compiled;
}

bool Rules::matches(const Pattern& pattern, const std::vector<std::string_view>& path,
                    size_t count) {
  if (pattern.by_name) return name_matches(pattern.glob.last(), path[count - 1]);
  return pattern.glob.matches(path, count);
}

bool Rules::covered(const std::vector<Pattern>& patterns, std::string_view path) {
  const auto parts = components(path);
  for (const Pattern& pattern : patterns) {
    for (size_t count = 1; count <= parts.size(); ++count) {
      if (matches(pattern, parts, count)) return true;
    }
  }
  return false;
}

bool Rules::never_packed(std::string_view path) const { return covered(never_pack_, path); }

bool Rules::not_compiled(std::string_view path) const { return covered(not_compiled_, path); }

std::string_view Rules::index_of(std::string_view path) const {
  if (!covered(index_files_, path)) return {};
  return path.substr(0, path.rfind('.'));
}

bool Rules::only_from_warm(std::string_view path) const { return covered(only_from_warm_, path); }

bool Rules::must_agree(std::string_view path) const { return covered(must_agree_, path); }

bool Rules::named_by_content(std::string_view path) const {
  return covered(named_by_content_, path);
}

Rules::WholeBy Rules::whole_by(std::string_view path) const {
  const auto parts = components(path);
  const auto any = [&](const std::vector<Pattern>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& pattern) {
      return matches(pattern, parts, parts.size());
    });
  };
  if (any(elf_files_)) return WholeBy::kElf;
  return any(stream_files_) ? WholeBy::kStream : WholeBy::kNothing;
}

bool Rules::portable(std::string_view path) const { return covered(portable_files_, path); }

std::optional<std::string_view> Rules::temporary(std::string_view path, bool is_directory) const {
  const auto parts = components(path);
  for (size_t count = 1; count <= parts.size(); ++count) {
    const bool directory = is_directory || count < parts.size();
    for (const Pattern& pattern : temporary_) {
      if (pattern.only_directories && !directory) continue;
      if (matches(pattern, parts, count)) return prefix(path, parts, count);
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> Rules::build_stem(std::string_view directory) const {
  const auto parts = components(directory);
  for (const Pattern& pattern : build_directories_) {
    if (!matches(pattern, parts, parts.size())) continue;
    const std::string& last = pattern.glob.last();
    const size_t wildcard = last.find_last_of("*?");
    const size_t suffix = wildcard == std::string::npos ? 0 : last.size() - wildcard - 1;
    return directory.substr(0, directory.size() - suffix);
  }
  return std::nullopt;
}

std::optional<Rules::Completable> Rules::completable(std::string_view path) const {
  const auto parts = components(path);
  for (size_t rule = 0; rule < completions_.size(); ++rule) {
    for (size_t count = parts.size() - 1; count >= 1 && count < parts.size(); --count) {
      if (completions_[rule].directory.matches(parts, count)) {
        return Completable{prefix(path, parts, count), rule};
      }
    }
  }
  return std::nullopt;
}

bool Rules::completes(size_t rule, std::string_view name) const {
  const auto& markers = completions_[rule].markers;
  return std::any_of(markers.begin(), markers.end(),
                     [&](const std::string& marker) { return name_matches(marker, name); });
}

std::optional<std::string_view> Rules::folder_of(const std::vector<Glob>& folders,
                                                 std::string_view path) {
  const auto parts = components(path);
  for (size_t count = 1; count < parts.size(); ++count) {
    for (const Glob& glob : folders) {
      if (glob.matches(parts, count)) return prefix(path, parts, count);
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> Rules::entry_directory(std::string_view path) const {
  return folder_of(entry_directories_, path);
}

std::optional<std::string_view> Rules::rank_directory(std::string_view path) const {
  return folder_of(rank_directories_, path);
}

Rules::EntryFile Rules::entry_file(std::string_view path) const {
  if (entry_directories_.empty() && entry_files_.empty() && derived_files_.empty()) {
    return EntryFile::kDerived;
  }
  const auto parts = components(path);
  const auto any = [&](const std::vector<Glob>& globs) {
    return std::any_of(globs.begin(), globs.end(),
                       [&](const Glob& glob) { return glob.matches(parts); });
  };
  if (any(entry_files_)) return EntryFile::kProof;
  return any(derived_files_) ? EntryFile::kDerived : EntryFile::kNone;
}

bool Rules::is_key_factors(std::string_view path) const {
  const auto parts = components(path);
  return std::any_of(key_factors_.begin(), key_factors_.end(),
                     [&](const Glob& glob) { return glob.matches(parts); });
}

std::string_view Rules::unit(std::string_view path) const {
  if (const auto entry = entry_directory(path)) return *entry;
  if (const auto folder = completable(path)) return folder->directory;
  return path;
}

std::string_view Rules::family(std::string_view path) const {
  const auto parts = components(path);
  for (size_t count = parts.size() - 1; count >= 1 && count < parts.size(); --count) {
    for (const Glob& glob : unit_directories_) {
      if (glob.matches(parts, count)) return prefix(path, parts, count);
    }
  }
  return stem(path);
}

std::string_view Rules::stem(std::string_view path) const {
  if (const std::string_view whole = unit(path); whole.size() < path.size()) return whole;
  const std::string_view name = base_name(path);
  const size_t dot = name.find('.', 1);
  return dot == std::string_view::npos ? path : path.substr(0, path.size() - name.size() + dot);
}

bool Rules::is_of_entry(std::string_view path) const {
  return entry_directory(path) || completable(path) || entry_file(path) != EntryFile::kNone;
}

namespace {

class UnitFinder {
 public:
  UnitFinder(const Rules& rules, const Scan& scan) : rules_(rules), scan_(scan) {}

  Classified run() {
    result_.unit_of.assign(scan_.size(), -1);
    collect_folders();
    for (size_t i = 0; i < scan_.size(); ++i) {
      if (const auto unit = unit_of(scan_[i])) result_.unit_of[i] = add(*unit, scan_[i]);
    }
    return std::move(result_);
  }

 private:
  // Which build folders there are, and which completable folders hold their marker.
  void collect_folders() {
    for (const FileInfo& item : scan_) {
      if (item.type == FileType::kDirectory) {
        if (const auto stem = rules_.build_stem(item.path)) {
          stems_[parent(item.path)].push_back(*stem);
        }
      } else if (const auto folder = rules_.completable(item.path)) {
        if (parent(item.path) == folder->directory &&
            rules_.completes(folder->rule, base_name(item.path))) {
          complete_.insert(folder->directory);
        }
      }
    }
  }

  std::optional<std::string_view> unit_of(const FileInfo& item) const {
    const bool directory = item.type == FileType::kDirectory;
    if (rules_.never_packed(item.path)) return std::nullopt;
    if (const auto temporary = rules_.temporary(item.path, directory)) return temporary;
    if (const auto stem = building(item.path)) return stem;
    if (directory) return std::nullopt;
    const auto folder = rules_.completable(item.path);
    if (folder && !complete_.contains(folder->directory)) return folder->directory;
    return std::nullopt;
  }

  // The stem of a build folder that `path` is, is in, or is an output of.
  std::optional<std::string_view> building(std::string_view path) const {
    if (stems_.empty()) return std::nullopt;
    for (std::string_view at = path; !at.empty(); at = parent(at)) {
      const auto found = stems_.find(parent(at));
      if (found == stems_.end()) continue;
      for (const std::string_view stem : found->second) {
        if (at.starts_with(stem)) return stem;
      }
    }
    return std::nullopt;
  }

  int add(std::string_view unit, const FileInfo& item) {
    const auto [found, is_new] = numbers_.try_emplace(unit, static_cast<int>(result_.units.size()));
    if (is_new) result_.units.push_back({std::string(unit), {}});
    WallTime& newest = result_.units[static_cast<size_t>(found->second)].newest;
    newest = std::max({newest, item.modified, item.changed});
    return found->second;
  }

  const Rules& rules_;
  const Scan& scan_;
  Classified result_;
  std::unordered_map<std::string_view, std::vector<std::string_view>> stems_;
  std::unordered_set<std::string_view> complete_;
  std::unordered_map<std::string_view, int> numbers_;
};

}  // namespace

Classified find_unfinished(const Rules& rules, const Scan& scan) {
  return UnitFinder(rules, scan).run();
}

}  // namespace compilecache::frameworks
