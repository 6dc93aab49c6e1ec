#include "agent/load/load.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "agent/control_directory.hpp"
#include "agent/coordinator.hpp"
#include "agent/cpu_code.hpp"
#include "agent/files.hpp"
#include "agent/load/load_choice.hpp"
#include "agent/load/load_pace.hpp"
#include "agent/pod.hpp"
#include "agent/scan.hpp"
#include "agent/store_trouble.hpp"
#include "agent/warm_notes.hpp"
#include "agent/watchdog.hpp"
#include "archive/extract/extract.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "frameworks/ranks.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// Longer than any answer of the operator may take (load_choice.cpp).
constexpr milliseconds kAskingTime{10'000};
// How long a cancelled extraction may clean up before the process is ended.
constexpr milliseconds kCleanUpTime{1000};
// How long examining a volume that failed may take.
constexpr milliseconds kLookTime{1000};
constexpr Patience kReportTime{3000};
constexpr milliseconds kMicrosecondsRoundedAway{1};
constexpr const char* kDirectoryFilled = "directory_filled";

std::string_view reason_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kInvalid:
      return "unsupported";
    case ErrorCode::kNotFound:
      return "blob_missing";
    case ErrorCode::kCancelled:
      return "timeout";
    case ErrorCode::kTooLarge:
      return "too_large";
    case ErrorCode::kInternal:
      return "internal";
    default:
      return "io";
  }
}

class Loader {
 public:
  Loader(const api::AgentConfig& config, store::Store& store, const Process& process,
         std::function<void()> leaving)
      : config_(config),
        store_(store),
        clock_(process.clock),
        termination_(process.termination),
        leaving_(std::move(leaving)),
        control_(config.control_path),
        coordinator_(
            make_coordinator(config, store, node_name(), process.clock, process.random,
                             [this](milliseconds time) { return termination_.sleep(time); })),
        // Never freed, like the threads that use it.
        watchdog_(*new Watchdog([this] { cancelled_ = true; }, [this] { abandon("timeout"); },
                                kCleanUpTime)) {
    termination_.on_request([this] { abandon("terminated"); });
  }

  void run(Predecessor predecessor) {
    prepare_directories();
    if (file_exists(control_.loading_marker())) {
      return give_up("loader_killed",
                     "a loader was killed, or crashed, while it was loading; see its log");
    }
    if (filled() && !forget_what_may_be_torn()) return keep_what_is_there();
    if (predecessor == Predecessor::kCrashed)
      return give_up("internal", "a loader crashed; see its log");
    if (predecessor == Predecessor::kEnded)
      return give_up("loader_killed", "a loader was ended before it was done; see its log");
    if (config_.mode == api::Mode::kRefresh) {
      return finish(api::Outcome::kSkipped, "refresh", "the pod asks to compile again");
    }
    LoadChoice choice = choose_archive(
        config_, store_, node_name(), *coordinator_, clock_,
        [this](milliseconds time) { return rest(time); }, [this] { watchdog_.arm(kAskingTime); });
    watchdog_.disarm();
    status_ = std::move(choice.status);
    {
      const MutexLock lock(chosen_mutex_);
      chosen_ = status_;
    }
    operator_answers_ = choice.operator_answered;
    if (!choice.load) return finish(status_.outcome, status_.reason, status_.message);
    log_info("found the archive", {{"archive", status_.archive},
                                   {"match", std::string(api::to_string(status_.match))},
                                   {"source", std::string(api::to_string(status_.source))},
                                   {"digest", status_.manifest_digest}});
    own_ranks_ = frameworks::OwnRanks(choice.rank_directories);
    load(choice.budget);
  }

 private:
  void prepare_directories() {
    const auto open = [](const std::string& path) {
      if (const auto made = make_open_directory(path); !made) {
        log_warn("cannot prepare a directory", {{"error", made.error().message}});
      }
    };
    for (const auto& directory : config_.directories) open(directory.path);
    open(config_.control_path);
  }

  [[nodiscard]] bool filled() const {
    for (const auto& directory : config_.directories) {
      if (directory_filled(directory.path, config_.control_path)) return true;
    }
    return false;
  }

  void empty_directories() const {
    for (const auto& directory : config_.directories) {
      if (const auto cleared = clear_directory(directory.path, config_.control_path); !cleared) {
        log_warn("cannot empty a directory", {{"error", cleared.error().message}});
      }
    }
  }

  // The loader before this one was killed in the middle, perhaps for its memory. Its files are
  // not whole, and retries could go on forever.
  void give_up(const std::string& reason, const std::string& message) {
    filling_ = true;
    empty_directories();
    operator_answers_ = true;
    finish(api::Outcome::kError, reason, message);
  }

  // Neither we nor torch sync files in an emptyDir, which outlives a power failure of the node.
  // Then they are there without their bytes, and so are the names of the first loader's notes.
  // Files that were there before any loader of this pod are not removed.
  bool forget_what_may_be_torn() {
    const auto earlier = control_.read_status();
    if (earlier && (earlier->boot_id == boot_id() || earlier->boot_id.empty() ||
                    boot_id().empty() || earlier->reason == kDirectoryFilled))
      return false;
    if (!earlier && earlier.error().code == ErrorCode::kNotFound &&
        !file_exists(control_.loaded_file()))
      return false;
    log_warn("the node was restarted since these directories were filled; emptying them", {});
    filling_ = true;
    empty_directories();
    if (const auto removed = remove_file(control_.status_file()); !removed) {
      log_warn("cannot remove the earlier status", {{"error", removed.error().message}});
    }
    return !filled();
  }

  // Init containers run again when the sandbox was restarted; the saver still needs what the first
  // one noted.
  void keep_what_is_there() {
    if (const auto earlier = control_.read_status()) {
      log_info("an earlier loader has been here; leaving everything as it is",
               {{"outcome", std::string(api::to_string(earlier->outcome))},
                {"archive", earlier->archive}});
      return;
    }
    operator_answers_ = true;
    finish(api::Outcome::kSkipped, kDirectoryFilled, "the cache directory is not empty");
  }

  // Waiting on purpose is not hanging.
  bool rest(milliseconds time) {
    watchdog_.disarm();
    return termination_.sleep(time);
  }

  void load(milliseconds budget) {
    budget_ = budget;
    // Marked before the archive is read: where a loader is killed for what it reads there, the next
    // one must not try again.
    filling_ = true;
    if (const auto marked = write_file(control_.loading_marker(), ""); !marked)
      return fail_with(marked.error());
    const auto volume_from = clock_.monotonic();
    volume_from_ = volume_from;
    watchdog_.arm(budget);
    const auto loaded = extract_or_fail();
    watchdog_.disarm();
    volume_idle_ = true;
    if (ended_) wait_to_be_ended();
    if (!loaded) return fail_with(loaded.error());
    status_.bytes = static_cast<int64_t>(loaded->plain_bytes);
    status_.files = static_cast<int64_t>(loaded->files);
    if (loaded->unwanted_files > 0) {
      log_info("left out what is other ranks', or must be the same for all ranks",
               {{"files", std::to_string(loaded->unwanted_files)}});
    }
    // The noted time is cut to microseconds and must not be before the last file's.
    status_.loaded_at = clock_.wall() + kMicrosecondsRoundedAway;
    status_.reads_visible = true;
    for (const auto& directory : config_.directories) {
      status_.reads_visible = status_.reads_visible && reads_are_visible(directory.path);
    }
    finish(api::Outcome::kSuccess, "", "");
  }

  // On every error the written files are removed.
  Result<archive::ExtractReport> extract_or_fail() {
    try {
      auto extracted = extract_all();
      if (!extracted) return extracted;
      if (const auto removed = remove_harmful(*extracted); !removed)
        return unexpected(removed.error());
      return extracted;
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInternal, "loading archive " + status_.archive + ": " + error.what());
    }
  }

  Result<archive::ExtractReport> extract_all() {
    archive::ExtractOptions options;
    for (const auto& directory : config_.directories) {
      options.roots.push_back({directory.framework.name, directory.path});
    }
    options.checkpoint = [this](const archive::Progress& progress) { return go_on(progress); };
    if (!own_ranks_.empty() || config_.in_group) options.wanted = wanted_here();
    options.before_creating = [this](const archive::Manifest& manifest,
                                     const archive::Config& contents) -> Status {
      if (const auto fits = check_cpu(manifest, contents); !fits) return fits;
      if (const auto fits = check_room(contents); !fits) return fits;
      return note_loading(contents);
    };
    auto extracted = archive::extract(store_, status_.manifest_digest, options);
    if (!extracted || !status_.archive_cpu.empty()) return extracted;
    if (const auto proven = prove_any_cpu(); !proven) return unexpected(proven.error());
    return extracted;
  }

  // Code of another CPU never gets into a pod, even if the operator names the archive for it.
  Status check_cpu(const archive::Manifest& manifest, const archive::Config& contents) {
    const std::string theirs = agent::cpu_of(manifest);
    switch (api::cpu_fit(api::with_cpu({}, theirs), status_.host_cpu)) {
      case api::CpuFit::kOwn:
      case api::CpuFit::kAny:
        status_.archive_cpu = theirs;
        return {};
      case api::CpuFit::kOther:
        return refuse_cpu("cpu_mismatch", "the archive holds code for the CPU " + theirs +
                                              ", and this host's is " + status_.host_cpu);
      case api::CpuFit::kUnproven:
        break;
    }
    if (!uses_gpu(config_)) return refuse_unknown("the pod compiles for its CPU");
    const auto code = CpuCode(config_).found_by_name(contents);
    return code ? refuse_unknown(*code + " is code") : Status{};
  }

  // An archive of 0.2 or earlier, which may still be one that every host can load.
  Status prove_any_cpu() {
    const auto found = CpuCode(config_).found_in_directories();
    if (!found) return unexpected(found.error());
    if (*found) return refuse_unknown(**found + " holds code");
    status_.archive_cpu = api::kAnyCpu;
    return {};
  }

  Status refuse_unknown(const std::string& why) {
    return refuse_cpu("cpu_unknown",
                      "the archive does not say for which CPU its code was compiled (" + why +
                          "); the next save writes one that does");
  }

  Status refuse_cpu(const char* reason, const std::string& message) {
    cpu_refusal_ = reason;
    return fail(ErrorCode::kNotFound, message);
  }

  // Files that do harm although they are as they were saved. Some were cut off by a kill: the
  // application would read them at each start and never replace them. Others are measurements of a
  // cold pod while it compiled. Releases before 0.3 saved both. The list of loaded files keeps
  // them: files that the application then writes in their place are new.
  Status remove_harmful(archive::ExtractReport& extracted) const {
    for (const auto& directory : config_.directories) {
      const auto& framework = directory.framework;
      if (framework.stream_files.empty() && framework.only_from_warm.empty()) continue;
      const frameworks::Rules rules(framework);
      const auto scan = scan_directory(directory.path);
      if (!scan) return unexpected(scan.error());
      for (const auto& file : scan->items) {
        if (cancelled_) return fail(ErrorCode::kCancelled, "looking at what was loaded");
        if (file.type != frameworks::FileType::kRegular) continue;
        const char* why = nullptr;
        if (rules.only_from_warm(file.path) &&
            !from_warm_.contains(framework.name + "/" + file.path)) {
          why = "a cold pod measured it";
        } else if (rules.whole_by(file.path) == frameworks::Rules::WholeBy::kStream &&
                   !WholeFiles().whole(scan->folder, file, frameworks::Rules::WholeBy::kStream)) {
          why = "it is cut off";
        }
        if (why == nullptr) continue;
        log_warn("left out a file", {{"file", file.path}, {"reason", why}});
        if (auto gone = remove_file(directory.path + "/" + file.path); !gone) return gone;
        --extracted.files;
        extracted.plain_bytes -= file.size;
      }
    }
    return {};
  }

  void note_warm_files(const archive::Config& contents) {
    for (const auto& directory : config_.directories) {
      const WarmFiles warm = warm_files(contents.notes, directory.framework.name);
      if (warm.empty()) continue;
      for (const auto& file : contents.files) {
        if (is_noted(warm, file)) from_warm_.insert(file.path);
      }
    }
  }

  // Other ranks' files stay where they are, and those that all ranks of a group must have or none.
  // Everything of the archive's head counts as held, loaded or not, so no save removes any of it.
  [[nodiscard]] std::function<bool(const std::string&)> wanted_here() const {
    auto rules = std::make_shared<std::map<std::string, frameworks::Rules, std::less<>>>();
    for (const auto& directory : config_.directories) {
      rules->emplace(directory.framework.name, frameworks::Rules(directory.framework));
    }
    return [this, rules](const std::string& path) {
      const std::string_view whole = path;
      const std::string_view root = whole.substr(0, whole.find('/'));
      const auto found = rules->find(root);
      if (found == rules->end() || root.size() == whole.size()) return true;
      const std::string_view below = whole.substr(root.size() + 1);
      return !(config_.in_group && found->second.must_agree(below)) &&
             own_ranks_.wants(root, found->second, below);
    };
  }

  [[nodiscard]] Status check_room(const archive::Config& contents) const {
    const uint64_t plain = contents.plain_bytes();
    const auto limit = static_cast<uint64_t>(config_.ephemeral_limit_bytes);
    if (limit == 0 || plain <= limit / 2) return {};
    return fail(ErrorCode::kTooLarge,
                "the archive's " + std::to_string(plain) +
                    " bytes would take more than half of the pod's ephemeral-storage limit; "
                    "raise that limit to have it loaded");
  }

  // Writes down what the saver has to know of the files, before any of them is written.
  Status note_loading(const archive::Config& contents) {
    if (cancelled_) return fail(ErrorCode::kCancelled, "the load was given up before it began");
    std::string paths;
    for (const auto& file : contents.files) paths += file.path + "\n";
    note_warm_files(contents);
    return control_.write_loaded(paths);
  }

  bool go_on(const archive::Progress& progress) {
    if (cancelled_) return false;
    too_slow_ = comes_too_late(clock_.monotonic() - volume_from_, budget_, progress);
    return !too_slow_;
  }

  void fail_with(const Error& error) {
    empty_directories();
    if (!cpu_refusal_.empty())
      return finish(api::Outcome::kDoesNotExist, cpu_refusal_, error.message);
    std::string reason(reason_of(error.code));
    if (error.code == ErrorCode::kCancelled && too_slow_) reason = "too_slow";
    if (error.code == ErrorCode::kCorrupt) status_.corrupt_digest = error.digest;
    const bool missing = error.code == ErrorCode::kNotFound;
    if (missing || reason == "io" || !error.reason.empty()) {
      watchdog_.arm(kLookTime);  // what just failed may hang now
      const std::string trouble = store_trouble(store_, error, store::Use::kRead);
      if (trouble != "io") reason = trouble == "volume_full" ? "disk_full" : trouble;
    }
    finish(missing ? api::Outcome::kDoesNotExist : api::Outcome::kError, reason, error.message);
  }

  // The status first, then the marker: killed in between, the next loader starts from nothing.
  void finish(api::Outcome outcome, const std::string& reason, const std::string& message) {
    watchdog_.disarm();
    if (ended_.exchange(true)) wait_to_be_ended();
    note_outcome(status_, outcome, reason, message);
    if (operator_answers_ && report(kReportTime)) status_.reported = true;
    write_status(status_);
    if (const auto removed = remove_file(control_.loading_marker()); !removed) {
      log_warn("cannot remove the mark of a load", {{"error", removed.error().message}});
    }
    log_info(status_.loaded() ? "loaded" : "starting cold",
             {{"outcome", std::string(api::to_string(status_.outcome))},
              {"reason", status_.reason},
              {"message", status_.message},
              {"archive", status_.archive},
              {"files", std::to_string(status_.files)},
              {"bytes", std::to_string(status_.bytes)},
              {"milliseconds", std::to_string(status_.milliseconds)}});
  }

  void note_outcome(LoadStatus& status, api::Outcome outcome, const std::string& reason,
                    const std::string& message) const {
    const auto taken = clock_.monotonic() - started_;
    status.milliseconds = std::chrono::duration_cast<milliseconds>(taken).count();
    status.boot_id = boot_id();
    status.outcome = outcome;
    status.reason = reason;
    status.message = message;
    if (!status.loaded()) {
      status.bytes = status.files = 0;
      status.archive_cpu.clear();
    }
  }

  void write_status(const LoadStatus& status) const {
    if (const auto written = control_.write_status(status); !written) {
      log_warn("cannot note the outcome", {{"error", written.error().message}});
    }
  }

  [[nodiscard]] bool report(Patience patience) const {
    const auto told = coordinator_->loaded(loaded_report(config_.cache, status_), patience);
    if (!told) log_warn("cannot report the load", {{"error", told.error().message}});
    return told.has_value();
  }

  // Runs on the watchdog's or the signal's thread, while the loading thread may hang in the kernel.
  void abandon(const std::string& reason) {
    cancelled_ = true;
    if (ended_.exchange(true)) return;
    for (milliseconds waited{0}; waited < kCleanUpTime / 2 && !volume_idle_;
         waited += milliseconds(10)) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    // What others have filled, and what they noted of it, stays.
    if (filling_ || !filled()) {
      empty_directories();
      LoadStatus status = chosen();
      note_outcome(status, api::Outcome::kError, reason, "the load was given up");
      write_status(status);
      empty_directories();  // what the other threads made in the meantime
      // They may run until this process has ended. While the mark is there, the waiting loader
      // empties the directories once more (empty_after_load), and so does the next loader.
      if ((volume_idle_ || !leaving_) && !filled())
        static_cast<void>(remove_file(control_.loading_marker()));
    }
    log_warn("starting cold", {{"outcome", "ERROR"}, {"reason", reason}});
    if (leaving_) leaving_();
    ::_exit(0);
  }

  // The thread that ended the load ends the process, too.
  [[noreturn]] static void wait_to_be_ended() {
    for (;;) std::this_thread::sleep_for(milliseconds(100));
  }

  [[nodiscard]] LoadStatus chosen() const {
    const MutexLock lock(chosen_mutex_);
    return chosen_;
  }

  const api::AgentConfig& config_;
  store::Store& store_;
  const Clock& clock_;
  Termination& termination_;
  const std::function<void()> leaving_;
  ControlDirectory control_;
  std::unique_ptr<Coordinator> coordinator_;
  Watchdog& watchdog_;
  frameworks::OwnRanks own_ranks_{{}};
  std::set<std::string> from_warm_;  // of Framework::only_from_warm, what is to be loaded
  LoadStatus status_;                // of the thread that loads alone
  mutable Mutex chosen_mutex_;
  LoadStatus chosen_
      GUARDED_BY(chosen_mutex_);  // what is to be loaded, for the thread that gives up
  const Monotonic started_ = clock_.monotonic();
  Monotonic volume_from_{};
  milliseconds budget_{0};
  bool operator_answers_ = false;
  std::string cpu_refusal_;  // why the archive is not for this host's CPU, one word; empty: it is
  std::atomic<bool> too_slow_{false}, cancelled_{false}, volume_idle_{false};
  // Whichever thread sets it says how it ended: the one that loads, or the one that gives up.
  std::atomic<bool> ended_{false};
  std::atomic<bool> filling_{false};  // what is in the directories is a loader's
};

}  // namespace

void run_load(const api::AgentConfig& config, store::Store& store, const Process& process,
              std::function<void()> leaving, Predecessor predecessor) {
  // Never freed: other threads of it may still run when this one is done.
  auto* loader = new Loader(config, store, process, std::move(leaving));
  loader->run(predecessor);
}

void empty_after_load(const api::AgentConfig& config) {
  const ControlDirectory control(config.control_path);
  if (!file_exists(control.loading_marker())) return;
  bool empty = true;
  for (const auto& directory : config.directories) {
    if (const auto cleared = clear_directory(directory.path, config.control_path); !cleared) {
      log_warn("cannot empty a directory", {{"error", cleared.error().message}});
    }
    empty = empty && !directory_filled(directory.path, config.control_path);
  }
  // Where the marker stays, the next loader empties the directories.
  if (empty) static_cast<void>(remove_file(control.loading_marker()));
}

}  // namespace compilecache::agent
