#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/archive_key.hpp"
#include "api/outcomes.hpp"
#include "api/words.hpp"
#include "base/error.hpp"

// What agents and the operator say to each other: HTTPS, JSON, `Authorization: Bearer` with the
// projected token. The pod is taken from the token, never from a message.
//
//   const Result<LoadRequest> request = parse<LoadRequest>(body);
//   response.body = dump(LoadAnswer{.reason = "no_archive"});
//
// Which call takes and gives which message is in docs/agent-api.md.
//
// Errors: status >= 400 and {"error": {"code": "Conflict", "message": "..."}}, code as in
// base/error.hpp.

namespace compilecache::api {

struct LoadRequest {
  std::string cache;
  // How long the operator has told this loader to wait so far; and of that, for a place among those
  // that load at once, once there was an archive. Each wait has a bound of its own.
  int64_t waited_ms = 0, waited_for_place_ms = 0;
};

enum class LoadDecision { kNone, kLoad, kWait };
template <>
inline constexpr auto kWords<LoadDecision> = std::to_array<Word<LoadDecision>>(
    {{LoadDecision::kNone, "none"}, {LoadDecision::kLoad, "load"}, {LoadDecision::kWait, "wait"}});
template <>
inline constexpr auto kUnknownMeans<LoadDecision> = LoadDecision::kNone;

struct LoadAnswer {
  LoadDecision decision = LoadDecision::kNone;
  std::string reason;  // one word why not: "no_archive", "gpu_product_unknown", "suspect", ...
  int64_t retry_after_ms = 0;
  std::optional<Match> match;  // of what is to be loaded
  std::string archive;
  std::string manifest_digest;
  int64_t generation = 0;
  int64_t compressed_bytes = 0, plain_bytes = 0;
  int64_t budget_ms = 0;
  ArchiveKey key;
  std::string gpu_product;
};

struct LoadedReport {
  std::string cache;
  std::optional<Outcome> outcome;
  std::string reason;  // word; "corrupt", "timeout", "directory_filled", ...
  std::string message;
  std::string archive, manifest_digest;
  std::optional<Match> match;
  std::optional<LoadSource> source;
  std::string corrupt_digest;  // the blob whose bytes are not what its name says
  int64_t generation = 0;
  int64_t milliseconds = 0, bytes = 0, files = 0;
  // Of the milliseconds: how long the operator told it to wait, and for what at last
  // ("waiting_for_first", ...); and how long it took to learn which archive.
  int64_t waited_ms = 0, asked_ms = 0;
  std::string waited_for;
};

struct SaveRequest {
  std::string cache;
  std::string attempt;      // nonce, new for each attempt
  std::string have_digest;  // manifest of the head that the saver last saw; empty: none
  // Manifest that the pod started with, of whatever archive; empty: none.
  std::string loaded_digest;
  // Of the head that it was to extend: a blob that is not what its digest promises, or one that is
  // not there, as far as this node sees. The operator decides what becomes of the head.
  std::string corrupt_digest, missing_digest;
  int64_t new_files = 0, new_bytes = 0;
  bool refresh = false;     // mode Refresh: no parent wanted
  bool final_save = false;  // at SIGTERM
  bool asked = false;       // by the application, which knows that it has compiled everything
};

enum class SaveDecision { kRefused, kGranted, kBusy };
template <>
inline constexpr auto kWords<SaveDecision> =
    std::to_array<Word<SaveDecision>>({{SaveDecision::kRefused, "refused"},
                                       {SaveDecision::kGranted, "granted"},
                                       {SaveDecision::kBusy, "busy"}});
template <>
inline constexpr auto kUnknownMeans<SaveDecision> = SaveDecision::kRefused;

struct SaveAnswer {
  SaveDecision decision = SaveDecision::kRefused;
  std::string reason;
  int64_t retry_after_ms = 0;
  std::string id;  // of this save; in the later paths
  int64_t fence = 0;
  int64_t lock_timeout_ms = 0;  // renew at a third of it
  std::string archive;
  ArchiveKey key;
  std::string gpu_product;
  int64_t generation = 0;              // that a commit will have
  std::string parent_digest;           // current head to extend; empty: write from scratch
  std::vector<std::string> condemned;  // blobs to write anew even where they exist
};

struct RenewRequest {
  int64_t fence = 0;
};

struct CommitRequest {
  int64_t fence = 0;
  std::string loaded_digest;  // as in SaveRequest
  std::string parent_digest;
  std::string manifest_digest;
  std::vector<std::string> blobs;
  int64_t compressed_bytes = 0, plain_bytes = 0, files = 0, layers = 0;
  double compile_seconds = 0;
  int64_t left_out = 0;  // files that the saver may not read, or no archive can hold
  // That is all there will be, as far as anybody can know: the application has asked for this save,
  // or has ended.
  bool complete = false;
  // For how long the cache directory has been still, and within which time this saver sees, and
  // says, that more is being compiled.
  int64_t still_ms = 0, notices_within_ms = 0;
};

struct CommitAnswer {
  std::string manifest_digest;
  int64_t generation = 0;
  std::string saved_at;
};

struct EffectReport {
  std::string cache;
  std::optional<Effect> effect;  // nothing: the pod loaded nothing
  // What this saver said last and an operator has heard: it is counted, though perhaps not known to
  // the one that leads now.
  std::optional<Effect> counted_effect;
  std::string reason;
  bool final_report = false;
  bool compiling = false;  // more is being compiled since the last save
  int64_t loaded_entries = 0, read_entries = 0, new_entries = 0;
  double compile_seconds = 0;  // this pod, as far as its new files tell
  // Some of the new entries, "torch/fxgraph/hw/fhwqm6"; and what differs in the framework's own
  // key, by name.
  std::vector<std::string> new_names, differing;
  // The last save's outcome, where one was tried.
  std::optional<Outcome> save_outcome;
  std::string save_reason, save_message;
  // Files and directories of the application that the saver may not read, and the user who owns
  // (most of) them; -1: there are none.
  int64_t unreadable_files = 0, unreadable_owner = -1;
};

struct BlobInfo {
  std::string digest;
  int64_t size = 0;
};

// What the index of a store says of an archive, and its manifest of its blobs.
struct FoundArchive {
  ArchiveKey key;
  std::string manifest_digest;
  int64_t generation = 0;
  std::string saved_at;
  std::vector<std::string> blobs;
  int64_t compressed_bytes = 0, plain_bytes = 0, files = 0, layers = 0;
};

// A sweep Job says "begin" (what is live, what may be deleted?) and "end" (what is there now).
// Before both comes "adopt" where it is about to take over a store of another cluster. What may be
// long is told in pages, each a message that may be repeated: "adopt" with some of the archives,
// "inventory", before "end", with the blobs after one digest up to another.
enum class SweepPhase { kAdopt, kBegin, kInventory, kEnd };
template <>
inline constexpr auto kWords<SweepPhase> =
    std::to_array<Word<SweepPhase>>({{SweepPhase::kAdopt, "adopt"},
                                     {SweepPhase::kBegin, "begin"},
                                     {SweepPhase::kInventory, "inventory"},
                                     {SweepPhase::kEnd, "end"}});

struct SweepRequest {
  std::string cache;
  std::optional<SweepPhase> phase;  // nothing: not one that this release knows
  // adopt:
  std::vector<FoundArchive> found;
  // inventory, end: all blobs that are there whose digests are after `after` and, where `up_to` is
  // not empty, not after that.
  std::vector<BlobInfo> inventory;
  std::string after, up_to;
  // end:
  int64_t freed_bytes = 0, removed_blobs = 0, removed_incomplete = 0;
  std::vector<std::string> corrupt;   // manifests that were asked to be checked and are corrupt
  std::vector<std::string> verified;  // and those that are whole
  std::string storage_error;          // empty: the volume does what we rely on
};

struct SweepArchive {
  std::string name;
  ArchiveKey key;
  std::string manifest_digest;
  int64_t generation = 0;
  std::string saved_at;
};

struct SweepAnswer {
  std::vector<SweepArchive> archives;  // the whole index
  std::vector<std::string> deletable;  // condemned before this Job started and still unreferenced
  std::vector<std::string> check;      // manifests of suspect archives to verify
  // Manifests that no loader may be given: what the index says of them goes, also where it is later
  // than the archives above.
  std::vector<std::string> distrusted;
  int64_t incomplete_timeout_ms = 60'000;
};

// A message is at most so long, in bytes: a few hundred are usual, and a sweep's pages are long
// (5,000 blobs are 500 KB). A longer one is refused.
inline constexpr size_t kLongestMessage = 256U << 10;
inline constexpr size_t kLongestSweepMessage = 2U << 20;

// "LoadRequest"
template <typename Message>
std::string_view message_name();

// Text to message and back. parse fails with kInvalid and names the message and the field.
template <typename Message>
Result<Message> parse(const std::string& text);
template <typename Message>
std::string dump(const Message& message);

std::string error_body(const Error& error);
// The Error that an answer with that status and body stands for.
Error error_of(int status, const std::string& body);
int http_status(ErrorCode code);

}  // namespace compilecache::api
