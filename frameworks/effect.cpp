#include "frameworks/effect.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace compilecache::frameworks {
namespace {

// Distinct entries of one kind.
struct Entries {
  std::unordered_set<std::string_view> loaded, read;
  std::unordered_map<std::string_view, WallTime> made;  // when their first file was
};

void make(Entries& entries, std::string_view entry, WallTime when) {
  const auto [found, is_new] = entries.made.emplace(entry, when);
  if (!is_new) found->second = std::min(found->second, when);
}

// The entries that were made first, so that a list once reported stays valid as more come.
std::vector<std::string> first_of(const std::unordered_map<std::string_view, WallTime>& made,
                                  const std::string& framework) {
  std::vector<std::pair<WallTime, std::string_view>> order;
  order.reserve(made.size());
  for (const auto& [entry, when] : made) order.emplace_back(when, entry);
  const size_t count = std::min(kNamedEntries, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back(framework + "/" + std::string(order[i].second));
  return names;
}

// The share of the time after an entry that the tracing and lowering of the next one takes. That
// takes 0.3 to 0.6 s for small models with torch 2.6 and 2.14, seconds for large ones.
constexpr std::chrono::seconds kBetweenEntries{5};
// No kernel takes longer; a pod that died while it compiled may have been dead for hours.
constexpr std::chrono::minutes kLongestStep{5};

// The same between the files of two kernels, where nothing else shows that something was compiled.
constexpr std::chrono::seconds kBetweenKernels{1};
// What entries do not tell counts from this on: that much every warm start compiles.
constexpr std::chrono::seconds kLeastNoticed{5};
// This much is noticed, however long the making of all that was loaded took.
constexpr std::chrono::seconds kAlwaysNoticed{30};
constexpr double kNoticedShare = 0.1;
constexpr double kMostlyReused = 0.5;

std::string_view folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

// Whether the app has written the file since it was loaded. Both times have to be later: the loader
// may set the one, and chmod sets the other.
bool written_anew(const FileInfo& file, const LoadedFiles& loaded) {
  return file.modified > loaded.at && file.changed > loaded.at;
}

Effect judge(uint64_t read, uint64_t made, bool reads_visible) {
  if (!reads_visible) return Effect::kUnknown;
  if (read > 0) return made > 0 ? Effect::kPartial : Effect::kFull;
  return made > 0 ? Effect::kNone : Effect::kUnused;
}

}  // namespace

Effect with_seconds(const Evidence& evidence, double archive_seconds) {
  const double proved = std::chrono::duration<double>(evidence.proved_time).count();
  if (evidence.effect == Effect::kFull && evidence.proved_time >= kLeastNoticed) {
    const bool noticed = evidence.proved_time >= kAlwaysNoticed ||
                         (archive_seconds > 0 && proved >= archive_seconds * kNoticedShare);
    return noticed ? Effect::kPartial : Effect::kFull;
  }
  if (evidence.effect == Effect::kNone && evidence.read_others > 0 &&
      evidence.compile_seconds() < archive_seconds * kMostlyReused) {
    return Effect::kPartial;
  }
  return evidence.effect;
}

bool compiled_nothing(const Evidence& evidence) {
  return evidence.effect == Effect::kFull && evidence.proved_time < kLeastNoticed;
}

double Evidence::compile_seconds() const {
  return std::chrono::duration<double>(compile_time).count();
}

void EffectJudge::add(const Rules& rules, const Scan& scan, const LoadedFiles* loaded) {
  Entries entries;
  Entries derived;
  struct Found {
    Entries* kind = nullptr;
    std::string_view entry;
    bool is_folder = false;
  };
  const auto entry_of = [&](std::string_view path) -> Found {
    if (const auto folder = rules.entry_directory(path)) return {&entries, *folder, true};
    switch (rules.entry_file(path)) {
      case Rules::EntryFile::kProof:
        return {&entries, path};
      case Rules::EntryFile::kDerived:
        return {&derived, path};
      case Rules::EntryFile::kNone:
        break;
    }
    return {};
  };

  if (loaded != nullptr) {
    reads_visible_ = reads_visible_ && loaded->reads_visible;
    for (const std::string& path : loaded->files) {
      if (const Found found = entry_of(path); found.kind != nullptr) {
        found.kind->loaded.insert(found.entry);
      }
    }
  }
  const Classified unfinished = find_unfinished(rules, scan);
  for (size_t i = 0; i < scan.size(); ++i) {
    const FileInfo& file = scan[i];
    if (file.type != FileType::kRegular || unfinished.unit_of[i] >= 0) continue;
    const bool was_loaded = loaded != nullptr && loaded->files.contains(file.path);
    if (!was_loaded && rules.never_packed(file.path)) continue;
    const Found found = entry_of(file.path);
    const bool reads_only = was_loaded && !written_anew(file, *loaded);
    if (!reads_only || file.accessed > kUnreadTime) {
      if (const auto rank = rules.rank_directory(file.path)) {
        ranks_.insert(rules.name() + "/" + std::string(*rank));
      }
    }
    if (reads_only) {
      if (file.accessed <= kUnreadTime) continue;
      if (found.kind != nullptr) {
        found.kind->read.insert(found.entry);
      } else {
        ++read_others_;
      }
      continue;
    }
    if (was_loaded && rules.named_by_content(file.path)) continue;
    if (found.kind != nullptr) make(*found.kind, found.entry, file.modified);
    if (rules.not_compiled(file.path)) continue;
    const auto folder = found.is_folder ? found.entry : folder_of(file.path);
    const std::hash<std::string_view> hash;
    const bool may_be_copied = found.kind == &derived || rules.completable(file.path);
    made_.push_back({file.modified, hash(folder), found.kind != nullptr,
                     may_be_copied ? 0 : hash(rules.stem(file.path))});
  }

  const auto sum = [&](Counts& counts, const Entries& of_kind) {
    counts.loaded += of_kind.loaded.size();
    counts.read += of_kind.read.size();
    counts.made += of_kind.made.size();
    for (std::string& name : first_of(of_kind.made, rules.name())) {
      counts.names.push_back(std::move(name));
    }
  };
  sum(entries_, entries);
  sum(derived_, derived);
}

Duration EffectJudge::compile_time() const {
  std::vector<Made> made = made_;
  std::sort(made.begin(), made.end(), [](const Made& a, const Made& b) { return a.when < b.when; });
  Duration time{0};
  for (size_t i = 1; i < made.size(); ++i) {
    const Made& before = made[i - 1];
    const bool another = before.is_entry && before.folder != made[i].folder;
    time +=
        std::min<Duration>(made[i].when - before.when, another ? kBetweenEntries : kLongestStep);
  }
  return time;
}

// The files of a stem are written one after the other, and several stems are worked on at once.
Duration EffectJudge::proved_time() const {
  struct Span {
    WallTime from, to;
  };
  std::unordered_map<size_t, WallTime> last;
  std::vector<Span> spans;
  std::vector<Made> made = made_;
  std::erase_if(made, [](const Made& one) { return one.stem == 0; });
  std::sort(made.begin(), made.end(), [](const Made& a, const Made& b) { return a.when < b.when; });
  for (size_t i = 0; i < made.size(); ++i) {
    const Made& one = made[i];
    const auto [before, is_first] = last.try_emplace(one.stem, one.when);
    if (!is_first) spans.push_back({std::max(before->second, one.when - kLongestStep), one.when});
    before->second = one.when;
    if (i > 0) spans.push_back({std::max(made[i - 1].when, one.when - kBetweenKernels), one.when});
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.from < b.from; });
  Duration time{0};
  WallTime until{};
  for (const Span& span : spans) {
    if (span.to <= until) continue;
    time += span.to - std::max(span.from, until);
    until = span.to;
  }
  return time;
}

Evidence EffectJudge::result() const {
  const bool entries_tell = entries_.read + entries_.made > 0;
  const bool derived_tell = derived_.read + derived_.made > 0;
  const bool by_entries = entries_tell || (!derived_tell && entries_.loaded > 0);
  const Counts& counts = by_entries ? entries_ : derived_;
  Evidence evidence;
  evidence.effect = judge(counts.read, counts.made, reads_visible_);
  evidence.loaded_entries = counts.loaded;
  evidence.read_entries = counts.read;
  evidence.new_entries = counts.made;
  evidence.proved_time = proved_time();
  evidence.compile_time = evidence.effect == Effect::kFull ? evidence.proved_time : compile_time();
  evidence.read_others = read_others_;
  evidence.new_names = counts.names;
  for (const std::string& rank : ranks_) {
    if (evidence.rank_directories.size() < kNamedRanks) evidence.rank_directories.push_back(rank);
  }
  return evidence;
}

}  // namespace compilecache::frameworks
