#include "agent/save/save_attempt.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/container_memory.hpp"
#include "agent/index_lookup.hpp"
#include "agent/save/lease.hpp"
#include "agent/store_trouble.hpp"
#include "archive/write/write.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "store/offline_index.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;
using Next = SaveResult::Next;

// Commits that may lose to other pods' in a row before the next quiet period is waited for.
constexpr int kMaxRounds = 4;
constexpr milliseconds kUnansweredPause{2000};
constexpr milliseconds kFailedPause{30'000};
constexpr milliseconds kShortestRetry{50};
constexpr char kNothingNew[] = "everything is in the archive already";

bool lost_to_another(ErrorCode code) {
  return code == ErrorCode::kConflict || code == ErrorCode::kExpired ||
         code == ErrorCode::kNotFound;
}

SaveResult skipped(std::string reason, Next next = Next::kWhenNew) {
  SaveResult result;
  result.outcome = api::Outcome::kSkipped;
  result.reason = std::move(reason);
  result.next = next;
  return result;
}

SaveResult failed(std::string reason, std::string message, Next next, milliseconds retry_after) {
  SaveResult result;
  result.outcome = api::Outcome::kError;
  result.reason = std::move(reason);
  result.message = std::move(message);
  result.next = next;
  result.retry_after = retry_after;
  return result;
}

class Attempt {
 public:
  Attempt(const SaveParts& parts, Head& head, SaverState& state, const SaveLimits& limits)
      : parts_(parts), config_(parts.config), head_(head), state_(state), limits_(limits) {}

  SaveResult run() {
    for (int round = 0; round < kMaxRounds; ++round) {
      if (const auto looked = parts_.watched.look(); !looked) {
        return failed("unreadable", looked.error().message, Next::kRetry, kFailedPause);
      }
      const SaveView view = parts_.watched.plan(head_.held, head_.notes, state_.saved_at);
      if (!view.anything_new()) return nothing_new(view);
      cpu_ = parts_.cpu_code.archive_cpu(view.files);
      if (cpu_ == api::kUnknownCpu) return unknown_cpu();
      const auto answer = begin(view);
      if (!answer) {
        const std::string reason = no_answer(answer.error().code);
        // It has been refused, and asking again would only hold up the pod's end.
        const bool silent = reason == "operator_unreachable";
        return failed(reason, answer.error().message, silent ? Next::kRetry : Next::kWhenChanged,
                      kUnansweredPause);
      }
      if (answer->decision == api::SaveDecision::kBusy) return busy(*answer);
      if (answer->decision != api::SaveDecision::kGranted) return refused(*answer);
      if (auto result = save_granted(*answer)) return std::move(*result);
      log_info("asking for the save again", {{"archive", answer->archive}});
    }
    return failed("conflict", "other pods' saves kept coming first", Next::kRetry,
                  kUnansweredPause);
  }

 private:
  // The mode Refresh replaces the archive once, by all that is here.
  [[nodiscard]] bool refreshing() const {
    return config_.mode == api::Mode::kRefresh && state_.saves == 0;
  }

  SaveResult nothing_new(const SaveView& view) const {
    const bool nothing_at_all = head_.digest.empty() && view.held == 0;
    SaveResult result = skipped("unchanged");
    result.message = kNothingNew;
    if (nothing_at_all) {
      result.outcome = api::Outcome::kDoesNotExist;
      result.reason = "nothing_to_save";
      result.message = "the application has compiled nothing yet";
    }
    const LeftOut left_out{view.unreadable, view.too_large};
    if (left_out.count() > 0) {
      result.outcome = api::Outcome::kSkipped;
      say_left_out(result, left_out);
    }
    result.manifest_digest = head_.digest;
    return result;
  }

  static SaveResult unknown_cpu() {
    SaveResult result = skipped("cpu_unknown", Next::kWhenChanged);
    result.message =
        "the cache has code for CPUs of an unknown kind: "
        "/proc/cpuinfo says nothing, or ATEN_CPU_CAPABILITY is not literal in the pod's template";
    return result;
  }

  Result<api::SaveAnswer> begin(const SaveView& view) const {
    api::SaveRequest request;
    request.cache = config_.cache;
    request.attempt = random_id(parts_.random);
    request.have_digest = head_.digest;
    request.loaded_digest = parts_.loaded_digest;
    request.corrupt_digest = corrupt_;
    request.missing_digest = missing_;
    // Which entries are read is new, too.
    request.new_files = static_cast<int64_t>(view.files.size() + (view.saves_use ? 1 : 0));
    request.new_bytes = static_cast<int64_t>(view.bytes);
    request.refresh = refreshing();
    request.final_save = limits_.final_save;
    request.cpu = cpu_;
    return parts_.coordinator.begin_save(request, limits_.patience());
  }

  static const char* no_answer(ErrorCode code) {
    if (code == ErrorCode::kNotFound) return "cache_gone";
    const bool refused = code == ErrorCode::kForbidden || code == ErrorCode::kUnauthorized;
    return refused ? "refused" : "operator_unreachable";
  }

  static SaveResult busy(const api::SaveAnswer& answer) {
    SaveResult result = skipped("busy", Next::kRetry);
    result.message = "another pod is saving" + (answer.reason.empty() ? "" : ": " + answer.reason);
    result.retry_after = std::max(milliseconds(answer.retry_after_ms), kShortestRetry);
    return result;
  }

  static SaveResult refused(const api::SaveAnswer& answer) {
    SaveResult result = skipped(answer.reason, Next::kWhenChanged);
    result.message = "the operator refuses the save: " + answer.reason;
    // The others depend on what is there.
    result.never_again = answer.reason != "already_current";
    return result;
  }

  // Returns nothing where the saver has to ask again: another pod's commit came first, or the head
  // to extend cannot be read.
  std::optional<SaveResult> save_granted(const api::SaveAnswer& answer) {
    Lease lease(parts_.coordinator, answer);
    auto granted = parent_of(answer);
    if (!granted) return tell_of_parent(answer, granted.error());
    Head parent = std::move(*granted);
    SaveView view = parts_.watched.plan(parent.held, parent.notes, state_.saved_at);
    if (config_.save.policy == api::SavePolicy::kOnce && !answer.parent_digest.empty() &&
        !refreshing()) {
      return release_as_current(answer, std::move(parent), "saved_once");
    }
    if (!view.anything_new()) return release_as_current(answer, std::move(parent), "unchanged");
    if (parts_.cpu_code.archive_cpu(view.files) != cpu_) {  // this archive is not for such files
      release(answer);
      return std::nullopt;
    }
    if (const TooMuch& known = parts_.too_much;
        known.bytes > 0 && known.bytes <= view.bytes && known.parent == parent.digest) {
      release(answer);
      return failed("too_large", known.why, Next::kWhenChanged, {});
    }
    log_info("saving", {{"archive", answer.archive},
                        {"files", std::to_string(view.files.size())},
                        {"bytes", std::to_string(view.bytes)},
                        {"parent", parent.digest},
                        {"fence", std::to_string(answer.fence)}});
    const std::vector<std::string> paths = paths_of(view);
    const auto written = write(answer, parent, view, lease);
    if (!written && !lease.lost() && is_about_parent(written.error())) {
      return tell_of_parent(answer, written.error());
    }
    if (!written && written.error().code == ErrorCode::kTooLarge)
      parts_.too_much = {parent.digest, view.bytes, written.error().message};
    if (!written) return not_written(answer, written.error(), lease);
    LeftOut left_out{view.unreadable, view.too_large};
    note_left_out(*written, left_out);
    add_held_now(parent.held, paths, *written);
    for (const auto& [name, text] : notes_) parent.notes[name] = text;
    std::optional<SaveResult> result;
    if (written->nothing_new) {
      result = release_as_current(answer, std::move(parent), "unchanged");
    } else {
      const std::string extended = std::exchange(parent.digest, written->archive.manifest);
      parent.cpu = cpu_;
      result = commit(answer, extended, std::move(parent), {view, *written, left_out});
    }
    if (result && view.truncated && result->outcome != api::Outcome::kError) {
      result->reason = "too_many_files";
      result->message =
          "there are more files and folders than the saver looks at; those beyond the "
          "first " +
          std::to_string(kMaxScanned) + " are not saved";
    }
    if (result && left_out.count() > 0 && result->outcome != api::Outcome::kError) {
      say_left_out(*result, left_out);
    }
    return result;
  }

  static std::vector<std::string> paths_of(const SaveView& view) {
    std::vector<std::string> paths;
    paths.reserve(view.files.size());
    for (const archive::SourceFile& file : view.files) paths.push_back(file.path);
    return paths;
  }

  // All that was to be written is in the archive now, or was in it before.
  static void add_held_now(HeldFiles& held, const std::vector<std::string>& paths,
                           const archive::WriteResult& written) {
    std::set<std::string_view> left_out;
    for (const archive::LeftOut& file : written.left_out) left_out.insert(file.path);
    std::vector<std::string_view> packed;
    packed.reserve(paths.size());
    for (const std::string& path : paths) {
      if (!left_out.contains(path)) packed.emplace_back(path);
    }
    add_held(held, packed);
  }

  // The head, by the operator.
  Result<Head> parent_of(const api::SaveAnswer& answer) const {
    if (answer.parent_digest.empty()) return Head{};
    if (answer.parent_digest == head_.digest) return head_;
    return read_head(parts_.store, answer.parent_digest);
  }

  static bool is_about_parent(const Error& error) {
    return error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kNotFound;
  }

  // A head is not given up because one pod cannot read it: the saver reports what is damaged or
  // missing, and the operator says what to extend. Where it says the same once more, the saver
  // waits.
  std::optional<SaveResult> tell_of_parent(const api::SaveAnswer& answer, const Error& error) {
    release(answer);
    std::string& told = error.code == ErrorCode::kCorrupt ? corrupt_ : missing_;
    if (!is_about_parent(error) || !told.empty()) {
      return failed(store_trouble(parts_.store, error, store::Use::kRead), error.message,
                    Next::kRetry, kFailedPause);
    }
    told = error.digest.empty() ? answer.parent_digest : error.digest;
    log_warn("the archive to extend cannot be read; telling the operator",
             {{"digest", told}, {"error", error.message}});
    return std::nullopt;
  }

  // Counted as the operator does (put_head): compile time is added to that of a head which this pod
  // loaded or saved; on another head it compiled the same once more.
  [[nodiscard]] double compile_seconds_with(const Head& parent) const {
    const double added = new_compile_seconds(parts_.watched.judge().compile_seconds());
    return parent.ours ? parent.compile_seconds + added
                       : std::max(parent.compile_seconds, added + carried_seconds(parent));
  }
  // Files that this pod loaded or saved as an archive for other hosts are now part of the first one
  // for its own kind.
  [[nodiscard]] double carried_seconds(const Head& parent) const {
    const bool moves = parent.digest.empty() && head_.ours && head_.cpu != cpu_ && !refreshing();
    return moves ? head_.compile_seconds : 0;
  }
  // Less than before where the app has cleared files.
  [[nodiscard]] double new_compile_seconds(double all) const {
    return std::max(0.0, all - state_.compile_seconds);
  }

  // For which hosts the archive is. An operator of 0.2 or earlier does not keep them apart, so that
  // what the parent holds may be for others: then nobody knows.
  [[nodiscard]] api::ArchiveKey saved_key(const api::SaveAnswer& answer, const Head& parent) const {
    const bool kept_apart = answer.key.contains(api::kCpuPart);
    if (kept_apart || parent.digest.empty() || parent.cpu == cpu_)
      return api::with_cpu(answer.key, cpu_);
    return parent.cpu == api::kAnyCpu ? api::with_cpu(answer.key, cpu_) : answer.key;
  }

  // Brings `use_` up to date, too.
  Notes notes_with(const Head& parent, const std::vector<archive::SourceFile>& files) {
    Notes notes = parts_.watched.factor_notes();
    notes.merge(parts_.watched.warm_notes(parent.notes, files));
    use_ = parts_.watched.use(parent.notes, state_.saves == 0);
    frameworks::UseNote left = use_;
    left.forget_dead(parts_.watched.today());
    if (!left.empty() || parent.notes.contains(kUseNote)) notes.emplace(kUseNote, left.dump());
    return notes;
  }

  // Which of the parent's files are of no use any more: entries that nobody reads, and those that
  // the indexes being written replace, whatever happens to the files that take their place.
  std::function<bool(const std::string&)> dropped(std::vector<std::string> replaced) const {
    const bool dead = use_.has_dead(parts_.watched.today());
    if (!dead && replaced.empty()) return {};
    return [this, dead, replaced = std::move(replaced)](const std::string& path) {
      return (dead && parts_.watched.is_dead(use_, path)) ||
             std::any_of(replaced.begin(), replaced.end(),
                         [&](const std::string& group) { return path.starts_with(group); });
    };
  }

  Result<archive::WriteResult> write(const api::SaveAnswer& answer, const Head& parent,
                                     SaveView& view, Lease& lease) {
    archive::WriteRequest request;
    request.parent = parent.digest;
    request.files = std::move(view.files);
    request.notes = notes_with(parent, request.files);
    notes_ = request.notes;
    request.anew = view.saves_use;
    request.dropped = dropped(view.replaced);
    archive_seconds_ = compile_seconds_with(parent);
    carried_seconds_ = carried_seconds(parent);
    if (cpu_ != api::kAnyCpu)
      request.notes["cpu/" + cpu_] = join(parts_.cpu_code.host().features, " ");
    request.annotations = index_annotations(answer.archive, answer.generation, "",
                                            saved_key(answer, parent), archive_seconds_);
    request.settings.compression_level = config_.compression.level;
    request.settings.threads = static_cast<unsigned>(std::max(1, config_.compression.threads));
    request.settings.frame_bytes = config_.compression.window;
    if (const auto memory = memory_limit()) {
      request.settings.compressor_bytes =
          compressor_memory(*memory, request.settings.compressor_bytes);
    }
    request.settings.max_archive_bytes = config_.save.max_archive_size;
    request.unwanted = [this](const std::string& path) {
      return parts_.watched.never_packed(path);
    };
    request.without = answer.condemned;
    request.checkpoint = [&](const archive::Progress&) {
      lease.got_on();
      return !lease.lost() && !limits_.give_up();
    };
    return archive::write_archive(parts_.store, std::move(request));
  }

  std::optional<SaveResult> not_written(const api::SaveAnswer& answer, const Error& error,
                                        const Lease& lease) const {
    if (lease.lost()) return std::nullopt;
    release(answer);
    if (error.code == ErrorCode::kTooLarge) {
      return failed("too_large", error.message, Next::kWhenChanged, {});
    }
    if (error.code == ErrorCode::kCancelled) {
      return failed("out_of_time", error.message, Next::kRetry, kUnansweredPause);
    }
    // A store that is away names its trouble.
    return failed(error.code == ErrorCode::kUnavailable && error.reason.empty()
                      ? "busy_files"
                      : store_trouble(parts_.store, error, store::Use::kWrite),
                  error.message, Next::kRetry, kFailedPause);
  }

  // The files that the archive lacks although it should hold them.
  struct LeftOut {
    Unreadable unreadable;
    TooLarge too_large;
    [[nodiscard]] uint64_t count() const { return unreadable.count() + too_large.files; }
  };

  void note_left_out(const archive::WriteResult& written, LeftOut& left_out) const {
    using Reason = archive::LeftOutReason;
    std::vector<std::string> too_many;
    for (const auto& file : written.left_out) {
      if (file.reason == Reason::kBusy || file.reason == Reason::kVanished) continue;
      if (file.reason == Reason::kTooMany) {
        ++left_out.too_large.files;
        if (left_out.too_large.why.empty()) {
          left_out.too_large.why = file.detail;
          left_out.too_large.too_many = true;
        }
        too_many.push_back(file.path);
        continue;
      }
      if (file.reason == Reason::kTooLarge || file.reason == Reason::kIncomplete) {
        ++left_out.too_large.files;
        if (file.reason == Reason::kIncomplete) continue;  // as long as it is that
        if (left_out.too_large.why.empty()) left_out.too_large.why = file.detail;
        parts_.watched.set_too_large(file.path, file.detail);
        continue;
      }
      const int64_t owner = parts_.watched.set_unreadable(file.path);
      if (file.reason == Reason::kUnreadable) left_out.unreadable.add(owner);
    }
    if (!too_many.empty()) parts_.watched.set_too_many(too_many, left_out.too_large.why);
  }

  static void say_left_out(SaveResult& result, const LeftOut& files) {
    std::string too_large;
    if (files.too_large.files > 0 && files.too_large.too_many) {
      result.reason = "too_many_files";
      too_large = std::to_string(files.too_large.files) +
                  " files are not saved, with the entries that they are of: " + files.too_large.why;
      result.message = too_large;
    } else if (files.too_large.files > 0) {
      result.reason = "file_too_large";
      too_large = "not saved: " + files.too_large.why;
      if (const uint64_t others = files.too_large.files - 1; others > 0) {
        too_large += " (and " + std::to_string(others) +
                     " more that are too large too, or of no use without it)";
      }
      result.message = too_large;
    }
    if (files.unreadable.count() == 0) return;
    say_unreadable(result, files.unreadable);
    if (!too_large.empty()) result.message += "; " + too_large;
  }

  static void say_unreadable(SaveResult& result, const Unreadable& files) {
    result.reason = "unreadable";
    result.message = std::to_string(files.count()) +
                     " files or directories that the application made cannot be read by user " +
                     std::to_string(::geteuid()) + " and are not saved";
    const std::string owner = std::to_string(files.owner());
    if (files.owner() >= 0) {
      result.message += ": only user " + owner +
                        " may read them; set spec.save.runAsUser: " + owner +
                        " in the CompileCache, or that securityContext.runAsUser in the pod";
    }
    result.unreadable = files;
  }

  struct Written {
    const SaveView& view;
    const archive::WriteResult& written;
    const LeftOut& left_out;
  };
  std::optional<SaveResult> commit(const api::SaveAnswer& answer, const std::string& parent,
                                   Head head, const Written& done) {
    const archive::ArchiveInfo& archive = done.written.archive;
    api::CommitRequest request;
    request.fence = answer.fence;
    request.loaded_digest = parts_.loaded_digest;
    request.parent_digest = parent;
    request.manifest_digest = archive.manifest;
    request.blobs = archive.blobs();
    request.compressed_bytes = static_cast<int64_t>(archive.compressed_bytes);
    request.plain_bytes = static_cast<int64_t>(archive.plain_bytes);
    request.files = static_cast<int64_t>(archive.files);
    request.left_out = static_cast<int64_t>(done.left_out.count());
    request.layers = static_cast<int64_t>(archive.layers.size());
    const double compile_seconds = parts_.watched.judge().compile_seconds();
    request.compile_seconds = new_compile_seconds(compile_seconds) + carried_seconds_;
    request.complete = limits_.final_save || limits_.asked;
    request.still_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                           parts_.clock.wall() - done.view.last_activity)
                           .count();
    request.notices_within_ms = limits_.notices_within.count();
    request.cpu = cpu_;
    const auto committed = parts_.coordinator.commit_save(answer.id, request, limits_.patience());
    if (!committed) {
      if (lost_to_another(committed.error().code)) return std::nullopt;
      return failed("commit_failed", committed.error().message, Next::kRetry, kUnansweredPause);
    }
    ++state_.saves;
    state_.compile_seconds = compile_seconds;
    note_on_volume(answer, *committed, archive);
    head_ = std::move(head);
    head_.compile_seconds = archive_seconds_;
    head_.ours = true;
    note_state();

    SaveResult result;
    result.outcome = api::Outcome::kSuccess;
    result.manifest_digest = archive.manifest;
    result.generation = committed->generation;
    result.files = done.written.added_files;
    result.bytes = done.written.written_bytes;
    return result;
  }

  // Updates the index and the node's note, for loads without the operator. Neither is the truth, so
  // a failure is only logged.
  void note_on_volume(const api::SaveAnswer& answer, const api::CommitAnswer& committed,
                      const archive::ArchiveInfo& archive) const {
    store::OfflineIndex* index = parts_.store.offline_index();
    if (index == nullptr) return;
    store::IndexEntry entry{archive.manifest, archive.manifest_bytes,
                            index_annotations(answer.archive, committed.generation,
                                              committed.saved_at, answer.key, archive_seconds_)};
    if (const auto noted = index->update_index(entry); !noted) {
      log_warn("the index on the volume was not updated", {{"error", noted.error().message}});
    }
    // A pod with a part of a GPU (mixed MIG mode), or with devices by claims, says nothing of the
    // node's other pods.
    const auto& resource = config_.key_basis.gpu_resource;
    if (resource.empty() || resource.find("/mig-") != std::string::npos) return;
    if (config_.key_basis.claims) return;
    if (answer.gpu_product.empty()) return;
    const auto noted = index->note_node_product(parts_.node, answer.gpu_product);
    if (!noted) {
      log_warn("the node's GPU product was not noted", {{"error", noted.error().message}});
    }
  }

  SaveResult release_as_current(const api::SaveAnswer& answer, Head parent,
                                const std::string& reason) {
    release(answer);
    const bool same = parent.digest == head_.digest;
    head_ = std::move(parent);
    note_state();
    SaveResult result = skipped(reason);
    result.message = same ? kNothingNew : "the archive of another pod's save is current";
    result.never_again = reason == "saved_once";
    result.manifest_digest = head_.digest;
    return result;
  }

  void release(const api::SaveAnswer& answer) const {
    if (const auto done = parts_.coordinator.release_save(answer.id, limits_.patience()); !done) {
      log_warn("the save's lock was not released; it expires",
               {{"save", answer.id}, {"error", done.error().message}});
    }
  }

  void note_state() {
    state_.head = head_.digest;
    state_.saved_at = parts_.watched.looked_at();
    if (const auto noted = parts_.control.write_saver_state(state_); !noted) {
      log_warn("cannot note the saver's state", {{"error", noted.error().message}});
    }
  }

  const SaveParts& parts_;
  const api::AgentConfig& config_;
  Head& head_;
  SaverState& state_;
  const SaveLimits& limits_;
  frameworks::UseNote use_;                           // of the archive made, with what it drops
  Notes notes_;                                       // its own
  std::string corrupt_, missing_;                     // blobs of the head, for the operator
  std::string cpu_;                                   // for which hosts the archive will be
  double archive_seconds_ = 0, carried_seconds_ = 0;  // of the archive being made
};

}  // namespace

Result<Head> read_head(const archive::BlobStore& store, const std::string& digest) {
  const auto manifest = archive::read_manifest(store, digest);
  if (!manifest) return unexpected(manifest.error());
  const auto config = archive::read_config(store, *manifest);
  if (!config) return unexpected(config.error());
  return Head{digest,
              held_files(*config),
              config->notes,
              archive::compile_seconds(manifest->annotations),
              cpu_of(*manifest),
              false};
}

SaveResult save_once(const SaveParts& parts, Head& head, SaverState& state,
                     const SaveLimits& limits) {
  return Attempt(parts, head, state, limits).run();
}

}  // namespace compilecache::agent
