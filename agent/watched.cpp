#include "agent/watched.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "agent/warm_notes.hpp"
#include "base/free_memory.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"

namespace compilecache::agent {
namespace {

// An unfinished unit holds a save back for two quiet periods after its last change. A wrong guess
// costs little: what is unfinished is not packed, and a later save takes what it becomes.
constexpr int kYoungQuietPeriods = 2;

// vLLM's have 10 KB, one for each rank and model.
constexpr size_t kLongestFactors = 128U << 10;
constexpr size_t kMostFactors = 16;  // files, of use or not
constexpr size_t kMostDiffering = 12;
constexpr size_t kNoteDigits = 16;

// The name prefix of an archive's notes about a framework's own keys.
std::string note_prefix(const std::string& framework) { return "factors/" + framework + "/"; }

// Combines hashes as boost::hash_combine does.
void mix(size_t& hash, size_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
}

void mix(size_t& hash, WallTime time) {
  mix(hash, static_cast<size_t>(time.time_since_epoch().count()));
}

void mix(size_t& hash, const std::string& text) { mix(hash, std::hash<std::string>{}(text)); }

void mix(size_t& hash, const frameworks::FileInfo& item) {
  mix(hash, item.path);
  mix(hash, item.size);
  mix(hash, item.modified);
  mix(hash, item.changed);
  // Listing a directory changes its access time, so that is not part of the fingerprint.
  if (item.type == frameworks::FileType::kRegular) mix(hash, item.accessed);
}

frameworks::UseNote noted_use(const Notes& notes) {
  const auto found = notes.find(kUseNote);
  return frameworks::UseNote::parse(found == notes.end() ? "" : found->second);
}

// Memory freed in small pieces stays with the process unless it is asked for; not worth it below.
constexpr size_t kMuch = 5'000;

}  // namespace

HeldFiles held_files(const archive::Config& config) {
  std::vector<std::string_view> paths;
  paths.reserve(config.files.size());
  for (const auto& file : config.files) paths.emplace_back(file.path);
  HeldFiles held;
  add_held(held, paths);
  return held;
}

void add_held(HeldFiles& held, const std::vector<std::string_view>& paths) {
  std::map<std::string_view, std::vector<std::string_view>> by_root;
  for (const std::string_view path : paths) {
    const size_t slash = path.find('/');
    if (slash != std::string_view::npos) {
      by_root[path.substr(0, slash)].push_back(path.substr(slash + 1));
    }
  }
  for (const auto& [root, below] : by_root) held[std::string(root)].add(below);
}

Watched::Watched(const api::AgentConfig& config, const archive::BlobStore& store,
                 const LoadStatus& load, const ControlDirectory& control, const Clock& clock)
    : control_(control),
      clock_(clock),
      store_(store),
      loaded_manifest_(load.manifest_digest),
      factors_key_(config.cache_uid),
      in_group_(config.in_group),
      loaded_exactly_(load.loaded() && load.match == api::Match::kExact),
      loaded_(load.loaded()),
      young_(config.save.quiet_period * kYoungQuietPeriods) {
  for (const auto& directory : config.directories) {
    Directory watched{directory.path, frameworks::Rules(directory.framework), {}, {}, {}};
    watched.loaded.at = load.loaded_at;
    watched.loaded.reads_visible = load.reads_visible;
    directories_.push_back(std::move(watched));
  }
}

Status Watched::look() {
  looked_at_ = clock_.wall();
  size_t fingerprint = 0;
  for (Directory& directory : directories_) {
    auto scan = scan_directory(directory.path);
    if (!scan) return unexpected(scan.error());
    if (scan->truncated && !directory.scan.truncated) {
      log_warn("the cache directory has more files than an archive can hold",
               {{"directory", directory.path}, {"limit", std::to_string(kMaxScanned)}});
    }
    directory.scan = std::move(*scan);
    mix(fingerprint, directory.path);
    for (const auto& item : directory.scan.items) mix(fingerprint, item);
    if (loaded_ && directory.loaded.files.empty()) read_loaded(directory);
  }
  changed_ = fingerprint != fingerprint_;
  fingerprint_ = fingerprint;
  return {};
}

void Watched::read_loaded(Directory& directory) {
  auto files = control_.read_loaded(directory.rules.name());
  if (files) {
    directory.loaded.files = std::move(*files);
  } else if (!std::exchange(logged_unknown_, true)) {
    log_warn("what was loaded is not known", {{"error", files.error().message}});
  }
}

Result<bool> Watched::differs() {
  const WallTime now = clock_.wall();
  size_t fingerprint = 0;
  for (const Directory& directory : directories_) {
    mix(fingerprint, directory.path);
    const auto walked = walk_directory(
        directory.path, [&](frameworks::FileInfo&& file) { mix(fingerprint, file); });
    if (!walked) return unexpected(walked.error());
  }
  if (fingerprint != fingerprint_) return true;
  looked_at_ = now;
  return false;
}

void Watched::forget() {
  size_t count = 0;
  for (Directory& directory : directories_) {
    count += directory.scan.items.size() + directory.loaded.files.size();
    directory.scan.items = frameworks::Scan();  // "{}" would keep its memory
    directory.loaded.files = frameworks::PathSet();
  }
  if (count > kMuch) return_free_memory();
}

void Watched::set_quiet_period(std::chrono::milliseconds time) {
  young_ = time * kYoungQuietPeriods;
}

SaveView Watched::plan(const HeldFiles& held, const Notes& notes,
                       std::optional<WallTime> saved_at) {
  SaveView view;
  for (Directory& directory : directories_) {
    const auto found = held.find(directory.rules.name());
    frameworks::SaveKnowledge knowledge;
    knowledge.held = found == held.end() ? nullptr : &found->second;
    knowledge.loaded = loaded_ ? &directory.loaded : nullptr;
    knowledge.saved_at = saved_at;
    knowledge.in_group = in_group_;
    knowledge.is_warm = [this] { return loaded_ && frameworks::compiled_nothing(judge()); };
    knowledge.young = young_;
    const auto plan =
        frameworks::plan_save(directory.rules, directory.scan.items, knowledge, looked_at_,
                              [&](const frameworks::FileInfo& file) {
                                return directory.whole.whole(directory.scan.folder, file,
                                                             directory.rules.whole_by(file.path));
                              });
    add_plan(directory, plan, view);
  }
  const frameworks::UseNote use = noted_use(notes);
  view.saves_use = !use.empty() && use.saves(observed());
  return view;
}

frameworks::ObservedUse Watched::observed() const {
  frameworks::ObservedUse observed;
  if (!loaded_) return observed;
  for (const Directory& directory : directories_) {
    observed.add(directory.rules, directory.scan.items, directory.loaded, looked_at_);
  }
  return observed;
}

frameworks::UseNote Watched::use(const Notes& notes, bool missed) const {
  frameworks::UseNote use = noted_use(notes);
  use.take(observed(), today(), missed && loaded_exactly_);
  return use;
}

const Watched::Directory* Watched::directory_of(std::string_view root) const {
  const auto found =
      std::find_if(directories_.begin(), directories_.end(),
                   [&](const Directory& directory) { return directory.rules.name() == root; });
  return found == directories_.end() ? nullptr : &*found;
}

bool Watched::is_dead(const frameworks::UseNote& use, const std::string& path) const {
  const std::string_view whole = path;
  const size_t slash = whole.find('/');
  if (slash == std::string_view::npos) return false;
  const Directory* directory = directory_of(whole.substr(0, slash));
  if (directory == nullptr) return false;
  const auto family = directory->rules.family(whole.substr(slash + 1));
  return use.is_dead(frameworks::family_hash(directory->rules.name(), family), today());
}

Notes Watched::warm_notes(const Notes& notes, const std::vector<archive::SourceFile>& files) const {
  std::set<std::string_view> packed;
  for (const archive::SourceFile& file : files) packed.insert(file.path);
  Notes made;
  for (const Directory& directory : directories_) {
    const std::string root = directory.rules.name() + "/";
    WarmFiles warm = warm_files(notes, directory.rules.name());
    const size_t known = warm.size();
    for (const auto& file : directory.scan.items) {
      const std::string path = root + file.path;
      if (directory.rules.only_from_warm(file.path) && packed.contains(path)) {
        warm[path] = file.modified.time_since_epoch().count();
      }
    }
    if (known > 0 || !warm.empty()) made.merge(warm_note(directory.rules.name(), warm));
  }
  return made;
}

void Watched::add_plan(Directory& directory, const frameworks::SavePlan& plan,
                       SaveView& view) const {
  const std::string root = directory.rules.name() + "/";
  const auto incomplete = units_without_a_file(directory, plan);
  std::unordered_map<std::string_view, uint32_t> units;  // by the number of the first file of each
  for (const frameworks::FileInfo* file : plan.pack) {
    const std::string path = root + file->path;
    const LeftOut* known = left_out(path, *file);
    const std::string_view unit = directory.rules.unit(file->path);
    if (known != nullptr && known->why.empty()) {
      view.unreadable.add(file->owner);
    } else if (known != nullptr || incomplete.contains(unit)) {
      ++view.too_large.files;
      if (known != nullptr && view.too_large.why.empty()) {
        view.too_large.why = known->why;
        view.too_large.too_many = known->too_many;
      }
    } else if (cut_off(directory, unit, *file)) {
      continue;
    } else {
      const auto number = static_cast<uint32_t>(view.files.size() + 1);
      const uint32_t shared = unit == file->path ? 0 : units.emplace(unit, number).first->second;
      view.files.push_back({file->path, path, directory.scan.folder, shared});
      view.bytes += file->size;
    }
  }
  for (const auto& unit : plan.busy) view.busy.push_back(root + unit);
  for (const auto& group : plan.replaced) view.replaced.push_back(root + group + ".");
  for (const auto& unit : plan.left_over) view.left_over.push_back(root + unit);
  view.held += plan.held;
  view.held_entries += plan.held_entries;
  view.unread += plan.unread;
  view.never_packed += plan.never_packed;
  view.not_regular += plan.not_regular;
  view.unreadable.add(directory.scan.unreadable_directories);
  view.truncated |= directory.scan.truncated;
  view.last_activity = std::max(view.last_activity, plan.last_activity);
}

// Whether the scan ended in the middle of the file's unit, of which a part is of no use.
bool Watched::cut_off(const Directory& directory, std::string_view unit,
                      const frameworks::FileInfo& file) {
  const ScanResult& scan = directory.scan;
  if (!scan.truncated || unit == file.path) return false;
  return scan.cut == unit || scan.cut.starts_with(std::string(unit) + "/");
}

// Useless entries, because one of their files is too large.
std::set<std::string_view> Watched::units_without_a_file(const Directory& directory,
                                                         const frameworks::SavePlan& plan) const {
  std::set<std::string_view> units;
  if (left_out_.empty()) return units;
  for (const frameworks::FileInfo* file : plan.pack) {
    const LeftOut* known = left_out(directory.rules.name() + "/" + file->path, *file);
    if (known != nullptr && !known->why.empty()) units.insert(directory.rules.unit(file->path));
  }
  return units;
}

frameworks::Evidence Watched::judge() const {
  frameworks::EffectJudge judge;
  for (const Directory& directory : directories_) {
    judge.add(directory.rules, directory.scan.items, loaded_ ? &directory.loaded : nullptr);
  }
  frameworks::Evidence evidence = judge.result();
  if (!loaded_) return evidence;
  const bool may_differ = evidence.effect == frameworks::Effect::kFull
                              ? evidence.proved_time > Duration::zero()
                              : evidence.effect == frameworks::Effect::kNone;
  if (may_differ) evidence.effect = frameworks::with_seconds(evidence, loaded_seconds());
  if (evidence.new_entries == 0) return evidence;
  for (const Directory& directory : directories_) {
    for (std::string& name : differing_factors(directory)) {
      if (evidence.differing.size() < kMostDiffering) evidence.differing.push_back(std::move(name));
    }
  }
  return evidence;
}

std::vector<frameworks::Factors> Watched::factors_of(const Directory& directory,
                                                     bool loaded) const {
  std::vector<frameworks::Factors> found;
  if (factors_key_.empty()) return found;
  size_t looked_at = 0;
  for (const auto& file : directory.scan.items) {
    if (file.type != frameworks::FileType::kRegular || !directory.rules.is_key_factors(file.path) ||
        directory.loaded.files.contains(file.path) != loaded) {
      continue;
    }
    if (++looked_at > kMostFactors) break;
    const auto read = loaded ? read_quietly : read_made;
    const auto text = read(directory.scan.folder, file.path, kLongestFactors);
    if (!text) continue;
    const auto factors = frameworks::read_factors(*text, factors_key_);
    // Each rank notes the same.
    if (!factors || std::find(found.begin(), found.end(), *factors) != found.end()) continue;
    found.push_back(*factors);
  }
  return found;
}

double Watched::loaded_seconds() const {
  if (!loaded_seconds_) {
    const auto manifest = archive::read_manifest(store_, loaded_manifest_);
    loaded_seconds_ = manifest ? archive::compile_seconds(manifest->annotations) : 0;
  }
  return *loaded_seconds_;
}

bool Watched::never_packed(const std::string& path) const {
  const size_t slash = path.find('/');
  if (slash == std::string::npos) return false;
  const std::string_view root = std::string_view(path).substr(0, slash);
  const std::string_view below = std::string_view(path).substr(slash + 1);
  return std::any_of(directories_.begin(), directories_.end(), [&](const Directory& directory) {
    return directory.rules.name() == root && directory.rules.never_packed(below);
  });
}

std::map<std::string, std::string> Watched::factor_notes() const {
  std::map<std::string, std::string> notes;
  for (const Directory& directory : directories_) {
    for (const auto& factors : factors_of(directory, false)) {
      const std::string text = frameworks::dump(factors);
      notes[note_prefix(directory.rules.name()) + sha256_hex(text).substr(0, kNoteDigits)] = text;
    }
  }
  return notes;
}

const std::vector<frameworks::Factors>& Watched::noted_factors(const std::string& framework) const {
  if (!noted_) {
    noted_.emplace();
    const auto manifest = archive::read_manifest(store_, loaded_manifest_);
    const auto config = manifest ? archive::read_config(store_, *manifest)
                                 : Result<archive::Config>(unexpected(manifest.error()));
    if (!config) {
      log_info("by what the framework's key differs is not known",
               {{"error", config.error().message}});
      return (*noted_)[framework];
    }
    for (const auto& [name, text] : config->notes) {
      for (const Directory& directory : directories_) {
        if (!name.starts_with(note_prefix(directory.rules.name()))) continue;
        if (auto factors = frameworks::parse_factors(text)) {
          (*noted_)[directory.rules.name()].push_back(std::move(*factors));
        }
      }
    }
  }
  return (*noted_)[framework];
}

// Each new table is compared with the loaded one that differs least from it: that is the key which
// nearly matched.
std::vector<std::string> Watched::differing_factors(const Directory& directory) const {
  const auto made = factors_of(directory, false);
  if (made.empty()) return {};
  std::vector<frameworks::Factors> loaded = factors_of(directory, true);
  const auto& noted = noted_factors(directory.rules.name());
  loaded.insert(loaded.end(), noted.begin(), noted.end());
  std::set<std::string> names;
  for (const auto& after : made) {
    std::optional<std::vector<std::string>> fewest;
    for (const auto& before : loaded) {
      auto differing = frameworks::differing_factors(before, after);
      if (differing && (!fewest || differing->size() < fewest->size())) fewest = *differing;
    }
    if (fewest) names.insert(fewest->begin(), fewest->end());
  }
  return {names.begin(), names.end()};
}

int64_t Watched::set_unreadable(const std::string& path) { return leave_out(path, ""); }

void Watched::set_too_large(const std::string& path, const std::string& why) {
  leave_out(path, why);
}

// There may be tens of thousands: each is found in one pass.
void Watched::set_too_many(const std::vector<std::string>& paths, const std::string& why) {
  const std::unordered_set<std::string_view> wanted(paths.begin(), paths.end());
  for (const Directory& directory : directories_) {
    for (const auto& item : directory.scan.items) {
      const std::string path = directory.rules.name() + "/" + item.path;
      if (wanted.contains(path)) left_out_[path] = {item.changed, why, true};
    }
  }
}

int64_t Watched::leave_out(const std::string& path, const std::string& why) {
  for (const Directory& directory : directories_) {
    const std::string root = directory.rules.name() + "/";
    if (!path.starts_with(root)) continue;
    const auto& items = directory.scan.items;
    const auto found = std::find_if(items.begin(), items.end(), [&](const auto& file) {
      return path.compare(root.size(), std::string::npos, file.path) == 0;
    });
    if (found == items.end()) continue;
    left_out_[path] = {found->changed, why, false};
    return found->owner;
  }
  return -1;
}

const Watched::LeftOut* Watched::left_out(const std::string& path,
                                          const frameworks::FileInfo& file) const {
  const auto found = left_out_.find(path);
  const bool known = found != left_out_.end() && found->second.changed == file.changed;
  return known ? &found->second : nullptr;
}

}  // namespace compilecache::agent
