#include "agent/save_attempt.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/index_lookup.hpp"
#include "agent/lease.hpp"
#include "agent/store_trouble.hpp"
#include "archive/format.hpp"
#include "archive/store.hpp"
#include "base/log.hpp"

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
      const SaveView view = parts_.watched.plan(head_.held, state_.saved_at);
      if (view.files.empty()) return nothing_new(view);
      const auto answer = begin(view);
      if (!answer) {
        const std::string reason = no_answer(answer.error().code);
        // It has been refused, and asking again would only hold up the pod's end.
        const bool silent = reason == "operator_unreachable";
        return failed(reason, answer.error().message, silent ? Next::kRetry : Next::kWhenChanged,
                      kUnansweredPause);
      }
      if (answer->decision == "busy") return busy(*answer);
      if (answer->decision != "granted") return refused(*answer);
      if (auto result = save_granted(*answer)) return std::move(*result);
      log_info("another pod's save came first; asking again", {{"archive", answer->archive}});
    }
    return failed("conflict", "other pods' saves kept coming first", Next::kRetry,
                  kUnansweredPause);
  }

 private:
  // The mode Refresh replaces the archive once, by all that is here.
  [[nodiscard]] bool refreshing() const { return config_.mode == "Refresh" && state_.saves == 0; }

  SaveResult nothing_new(const SaveView& view) const {
    const bool nothing_at_all = head_.digest.empty() && view.held == 0;
    SaveResult result = skipped(view.unreadable > 0 ? "unreadable" : "unchanged");
    result.message = kNothingNew;
    if (nothing_at_all && view.unreadable == 0) {
      result.outcome = api::Outcome::kDoesNotExist;
      result.reason = "nothing_to_save";
      result.message = "the application has compiled nothing yet";
    }
    if (view.unreadable > 0) result.message = unreadable_files(view.unreadable);
    result.manifest_digest = head_.digest;
    return result;
  }

  Result<api::SaveAnswer> begin(const SaveView& view) const {
    api::SaveRequest request;
    request.cache = config_.cache;
    request.attempt = random_id(parts_.random);
    request.have_digest = head_.digest;
    request.new_files = static_cast<int64_t>(view.files.size());
    request.new_bytes = static_cast<int64_t>(view.bytes);
    request.refresh = refreshing();
    request.final_save = limits_.final_save;
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

  // Nothing: lost to another pod, ask again.
  std::optional<SaveResult> save_granted(const api::SaveAnswer& answer) {
    Lease lease(parts_.coordinator, answer);
    auto granted = parent_of(answer);
    if (!granted) {
      release(answer);
      return failed(store_trouble(config_.store_path, granted.error(), StoreUse::kRead),
                    granted.error().message, Next::kRetry, kFailedPause);
    }
    Head parent = std::move(*granted);
    SaveView view = parts_.watched.plan(parent.held, state_.saved_at);
    if (config_.save_policy == "Once" && !answer.parent_digest.empty() && !refreshing()) {
      return release_as_current(answer, std::move(parent), "saved_once");
    }
    if (view.files.empty()) return release_as_current(answer, std::move(parent), "unchanged");
    log_info("saving", {{"archive", answer.archive},
                        {"files", std::to_string(view.files.size())},
                        {"bytes", std::to_string(view.bytes)},
                        {"parent", parent.digest},
                        {"fence", std::to_string(answer.fence)}});
    std::vector<std::string> paths = paths_of(view);
    auto written = write(answer, parent.digest, std::move(view.files), lease);
    if (!written && !parent.digest.empty() && damaged(written.error())) {
      log_warn("the archive to extend is damaged; saving from scratch",
               {{"digest", parent.digest}, {"error", written.error().message}});
      parent = {};
      view = parts_.watched.plan(parent.held, state_.saved_at);
      paths = paths_of(view);
      written = write(answer, "", std::move(view.files), lease);
    }
    if (!written) return not_written(answer, written.error(), lease);
    const std::string left_out = note_left_out(*written);
    add_held_now(parent.held, paths, *written);
    std::optional<SaveResult> result;
    if (written->nothing_new) {
      result = release_as_current(answer, std::move(parent), "unchanged");
    } else {
      const std::string extended = std::exchange(parent.digest, written->archive.manifest);
      result = commit(answer, extended, std::move(parent), view, *written);
    }
    if (result && view.truncated && result->outcome != api::Outcome::kError) {
      result->reason = "too_many_files";
      result->message =
          "there are more files and folders than the saver looks at; those beyond the "
          "first " +
          std::to_string(kMaxScanned) + " are not saved";
    }
    if (result && !left_out.empty() && result->outcome != api::Outcome::kError) {
      result->reason = "unreadable";
      result->message = left_out;
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

  // What the operator says is the head; where the volume does not have it whole, nothing: the new
  // archive then starts from scratch. An error that may pass is not worth what others have saved.
  Result<Head> parent_of(const api::SaveAnswer& answer) const {
    if (answer.parent_digest.empty()) return Head{};
    if (answer.parent_digest == head_.digest) return head_;
    auto parent = read_head(config_.store_path, answer.parent_digest);
    if (parent || !damaged(parent.error())) return parent;
    log_warn("the archive to extend cannot be read; saving from scratch",
             {{"digest", answer.parent_digest}, {"error", parent.error().message}});
    return Head{};
  }

  Result<archive::WriteResult> write(const api::SaveAnswer& answer, const std::string& parent,
                                     std::vector<archive::SourceFile> files, Lease& lease) const {
    archive::WriteRequest request;
    request.parent = parent;
    request.files = std::move(files);
    request.annotations = index_annotations(answer.archive, answer.generation, "", answer.key);
    request.settings.compression_level = config_.compression_level;
    request.settings.threads = static_cast<unsigned>(std::max(1, config_.compression_threads));
    request.settings.frame_bytes = static_cast<uint64_t>(config_.compression_window_bytes);
    request.settings.max_archive_bytes = static_cast<uint64_t>(config_.max_archive_bytes);
    request.without = answer.condemned;
    request.checkpoint = [&](const archive::Progress&) {
      lease.got_on();
      return !lease.lost() && !limits_.give_up();
    };
    return archive::write_archive(config_.store_path, std::move(request));
  }

  static bool damaged(const Error& error) {
    return error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kNotFound;
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
    return failed(error.code == ErrorCode::kUnavailable
                      ? "busy_files"
                      : store_trouble(config_.store_path, error, StoreUse::kWrite),
                  error.message, Next::kRetry, kFailedPause);
  }

  // Returns what the user should know, or nothing.
  std::string note_left_out(const archive::WriteResult& written) const {
    uint64_t unreadable = 0;
    for (const auto& file : written.left_out) {
      const bool temporary = file.reason == archive::LeftOutReason::kBusy ||
                             file.reason == archive::LeftOutReason::kVanished;
      if (!temporary) parts_.watched.set_unreadable(file.path);
      if (file.reason == archive::LeftOutReason::kUnreadable) ++unreadable;
    }
    return unreadable == 0 ? "" : unreadable_files(unreadable);
  }

  static std::string unreadable_files(uint64_t count) {
    return std::to_string(count) +
           " files or directories that the app made cannot be read; give our containers the app's "
           "user (securityContext.runAsUser) or let the app's umask be 022";
  }

  std::optional<SaveResult> commit(const api::SaveAnswer& answer, const std::string& parent,
                                   Head head, const SaveView& view,
                                   const archive::WriteResult& written) {
    const archive::ArchiveInfo& archive = written.archive;
    api::CommitRequest request;
    request.fence = answer.fence;
    request.parent_digest = parent;
    request.manifest_digest = archive.manifest;
    request.blobs = archive.blobs();
    request.compressed_bytes = static_cast<int64_t>(archive.compressed_bytes);
    request.plain_bytes = static_cast<int64_t>(archive.plain_bytes);
    request.files = static_cast<int64_t>(archive.files);
    request.layers = static_cast<int64_t>(archive.layers.size());
    const double compile_seconds = parts_.watched.judge().compile_seconds();
    // Less than before where the app has cleared files.
    request.compile_seconds = std::max(0.0, compile_seconds - state_.compile_seconds);
    request.complete = limits_.final_save || limits_.asked;
    request.still_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                           SystemClock::instance().wall() - view.last_activity)
                           .count();
    request.notices_within_ms = limits_.notices_within.count();
    const auto committed = parts_.coordinator.commit_save(answer.id, request, limits_.patience());
    if (!committed) {
      if (lost_to_another(committed.error().code)) return std::nullopt;
      return failed("commit_failed", committed.error().message, Next::kRetry, kUnansweredPause);
    }
    ++state_.saves;
    state_.compile_seconds = compile_seconds;
    note_on_volume(answer, *committed, archive);
    head_ = std::move(head);
    note_state();

    SaveResult result;
    result.outcome = api::Outcome::kSuccess;
    result.manifest_digest = archive.manifest;
    result.generation = committed->generation;
    result.files = written.added_files;
    result.bytes = written.written_bytes;
    return result;
  }

  // For loads without the operator. Neither is the truth, so a failure is only worth a line.
  void note_on_volume(const api::SaveAnswer& answer, const api::CommitAnswer& committed,
                      const archive::ArchiveInfo& archive) const {
    archive::IndexEntry entry{
        archive.manifest, archive.manifest_bytes,
        index_annotations(answer.archive, committed.generation, committed.saved_at, answer.key)};
    if (const auto noted = archive::upsert_index_entry(config_.store_path, entry); !noted) {
      log_warn("the index on the volume was not updated", {{"error", noted.error().message}});
    }
    // A pod with a part of a GPU (mixed MIG mode) says nothing of the node's other pods.
    const auto& resource = config_.key_basis.gpu_resource;
    if (resource.empty() || resource.find("/mig-") != std::string::npos) return;
    if (answer.gpu_product.empty()) return;
    const auto noted =
        archive::note_node_product(config_.store_path, parts_.node, answer.gpu_product);
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
};

}  // namespace

Result<Head> read_head(const std::string& store, const std::string& digest) {
  const auto manifest = archive::read_manifest(store, digest);
  if (!manifest) return unexpected(manifest.error());
  const auto config = archive::read_config(store, *manifest);
  if (!config) return unexpected(config.error());
  return Head{digest, held_files(*config)};
}

SaveResult save_once(const SaveParts& parts, Head& head, SaverState& state,
                     const SaveLimits& limits) {
  return Attempt(parts, head, state, limits).run();
}

}  // namespace compilecache::agent
