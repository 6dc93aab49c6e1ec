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
#include "api/registry_trouble.hpp"
#include "api/words.hpp"
#include "base/error.hpp"

// The messages between agents and the operator: HTTPS, JSON, `Authorization: Bearer` with the
// projected token. The pod is taken from the token, never from a message.
//
//   const Result<LoadRequest> request = parse<LoadRequest>(body);
//   response.body = dump(LoadAnswer{.reason = "no_archive"});
//
// Which call takes and gives which message is in docs/design/agent-api.md.
//
// Errors: status >= 400 and {"error": {"code": "Conflict", "message": "..."}}, code as in
// base/error.hpp.

namespace compilecache::api {

struct LoadRequest {
  std::string cache;
  // How long this loader has waited so far because the operator said so, in all. And how much of
  // that for a place among the pods that load at once, after there was an archive. Each wait has a
  // bound of its own.
  int64_t waited_ms = 0, waited_for_place_ms = 0;
  std::string cpu;  // the kind of CPU of the host (api::cpu_fit); empty: an agent of 0.2 or earlier
};

enum class LoadDecision { kNone, kLoad, kWait };
template <>
inline constexpr auto kWords<LoadDecision> = std::to_array<Word<LoadDecision>>(
    {{LoadDecision::kNone, "none"}, {LoadDecision::kLoad, "load"}, {LoadDecision::kWait, "wait"}});
template <>
inline constexpr auto kUnknownMeans<LoadDecision> = LoadDecision::kNone;

struct LoadAnswer {
  LoadDecision decision = LoadDecision::kNone;
  std::string reason;  // why none, one word: "no_archive", "gpu_product_unknown", "suspect", ...
  int64_t retry_after_ms = 0;
  std::optional<Match> match;  // of what is to be loaded
  std::string archive;
  std::string manifest_digest;
  int64_t generation = 0;
  int64_t compressed_bytes = 0, plain_bytes = 0;
  int64_t budget_ms = 0;
  ArchiveKey key;
  std::string gpu_product;
  // The ranks' folders ("vllm/torch_compile_cache/0123456789/rank_4_0") that pods with this one's
  // place in their groups use. Other ranks' folders beside them are not loaded. Empty: all are.
  std::vector<std::string> rank_directories;
};

struct LoadedReport {
  std::string cache;
  std::optional<Outcome> outcome;
  std::string reason;  // why, one word: "corrupt", "timeout", "directory_filled", ...
  std::string message;
  std::string archive, manifest_digest;
  std::optional<Match> match;
  std::optional<LoadSource> source;
  std::string corrupt_digest;  // the blob whose bytes are not what its name says
  int64_t generation = 0;
  int64_t milliseconds = 0, bytes = 0, files = 0;
  // Both are part of the milliseconds above: how long it waited because the operator said so, and
  // how long it took to find out which archive is its own. `waited_for` says what it waited for
  // last ("waiting_for_first", ...).
  int64_t waited_ms = 0, asked_ms = 0;
  std::string waited_for;
  std::string cpu;  // as in LoadRequest
};

struct SaveRequest {
  std::string cache;
  std::string attempt;      // a nonce, new for each attempt
  std::string have_digest;  // manifest of the head that the saver last saw; empty: none
  // The manifest that the pod loaded before it started, of whatever archive; empty: it loaded none.
  std::string loaded_digest;
  // A blob of the head to extend whose bytes do not match its digest, and one that is missing, as
  // far as this node sees. The operator decides about the head.
  std::string corrupt_digest, missing_digest;
  int64_t new_files = 0, new_bytes = 0;
  bool refresh = false;     // mode Refresh: no parent wanted
  bool final_save = false;  // at SIGTERM
  bool asked = false;       // by the application, which knows that it has compiled everything
  // For which hosts the archive will be (api::kCpuPart); empty: an agent of 0.2 or earlier.
  std::string cpu;
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
  std::string id;  // names this save in the paths of later calls
  int64_t fence = 0;
  int64_t lock_timeout_ms = 0;  // renew at a third of it
  std::string archive;
  ArchiveKey key;
  std::string gpu_product;
  int64_t generation = 0;              // the one that a commit will make
  std::string parent_digest;           // current head to extend; empty: write from scratch
  std::vector<std::string> condemned;  // blobs to rewrite even where they exist
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
  // Nothing more will be compiled, as far as anybody can know: the application has asked for this
  // save, or has ended.
  bool complete = false;
  // How long the cache directory has been still, and how soon this saver notices and reports that
  // more is being compiled.
  int64_t still_ms = 0, notices_within_ms = 0;
  std::string cpu;  // as in SaveRequest
};

struct CommitAnswer {
  std::string manifest_digest;
  int64_t generation = 0;
  std::string saved_at;
};

struct EffectReport {
  std::string cache;
  std::optional<Effect> effect;  // nothing: the pod loaded nothing
  // The effect that this saver reported last and a leader has answered. It is counted already, but
  // the present leader may not know that.
  std::optional<Effect> counted_effect;
  std::string reason;
  bool final_report = false;
  bool compiling = false;  // more is being compiled since the last save
  int64_t loaded_entries = 0, read_entries = 0, new_entries = 0;
  double compile_seconds = 0;  // by this pod, estimated from the times of its new files
  // The names of some new entries ("torch/fxgraph/hw/fhwqm6"), and of what differs in the
  // framework's own key.
  std::vector<std::string> new_names, differing;
  // The last save's outcome, where one was tried.
  std::optional<Outcome> save_outcome;
  std::string save_reason, save_message;
  // How many of the application's files and directories the saver may not read, and the user who
  // owns most of them; -1: there are none.
  int64_t unreadable_files = 0, unreadable_owner = -1;
  // The ranks' folders, as in LoadAnswer, in which the application has read or made a file.
  std::vector<std::string> rank_directories;
};

struct StoredBlob {
  std::string digest;
  int64_t size = 0;
};

// The store's digests greater than `after` and, where `up_to` is not empty, not greater
// than that. One that could not be read is none, never an empty one.
struct Inventory {
  std::vector<StoredBlob> blobs;
  std::vector<std::string> kept;    // there too, but not to be deleted: others have use for them
  std::vector<std::string> unread;  // manifests of archives that may or may not be there
  std::string after, up_to;
};

// A signature of an archive, in the form in which it stands beside the archive. All texts are in
// base64, so that the bytes that were signed arrive as they were.
struct FoundSignature {
  std::string bundle;              // a bundle of cosign 3; empty: the two below
  std::string payload, signature;  // of simple signing; the signature as its annotation has it
};

// An archive as a store's own index names it, with the blobs that its manifest lists.
struct FoundArchive {
  ArchiveKey key;
  std::string manifest_digest;
  int64_t generation = 0;
  std::string saved_at;
  std::vector<std::string> blobs;
  int64_t compressed_bytes = 0, plain_bytes = 0, files = 0, layers = 0;
  // Where spec.trust names keys: the signature by which one of them vouches for the manifest.
  std::vector<FoundSignature> signatures;
};

// A sweep Job sends "begin", to learn what is live and what it may delete, and "end", to report
// what is there now. It sends "fail" if it could not find that out. An operator that does
// not know this word refuses it, and does not take it for an empty store. Before these
// it sends "adopt" if it is about to take over a store of another cluster. Long lists go in
// pages, each a message that may be repeated. Pages of "adopt" have some of the archives. Pages of
// "copy", after "begin", have some of the archives copied from another store; the last has none and
// says how that ended. Pages of "inventory", before "end", have the blobs after one digest up to
// another.
enum class SweepPhase { kAdopt, kBegin, kCopy, kInventory, kEnd, kFail };
template <>
inline constexpr auto kWords<SweepPhase> =
    std::to_array<Word<SweepPhase>>({{SweepPhase::kAdopt, "adopt"},
                                     {SweepPhase::kBegin, "begin"},
                                     {SweepPhase::kCopy, "copy"},
                                     {SweepPhase::kInventory, "inventory"},
                                     {SweepPhase::kEnd, "end"},
                                     {SweepPhase::kFail, "fail"}});

struct SweepRequest {
  std::string cache;
  std::optional<SweepPhase> phase;  // nothing: not one that this release knows
  // Fields of "adopt" and "copy":
  std::vector<FoundArchive> found;
  // Fields of the last "copy":
  std::string copied_from;      // AgentConfig::Sweep::copy_name; empty: it is not the last
  int64_t copied_archives = 0;  // that are here now
  int64_t copy_left_out = 0;    // that can never be: lost there, or not wanted here
  std::string copy_error;       // why not all of them
  // Of "inventory" and "end". Nothing: the Job does not know what is there, and nothing may be
  // concluded from it. 0.2 and earlier did not tell an empty store from one that could not be
  // read, so that what they say of an empty store is nothing too.
  std::optional<Inventory> inventory;
  // Fields of "end" and "fail":
  int64_t freed_bytes = 0, removed_blobs = 0, removed_incomplete = 0;
  std::vector<std::string> corrupt;   // manifests in SweepAnswer::check that are corrupt
  std::vector<std::string> verified;  // and those whose blobs are all whole
  std::string sweep_error;            // what failed although the store can be used
  std::string storage_error;          // why the store cannot be used; empty: it can
  // The same as one of a registry's words; nothing for a volume.
  std::optional<RegistryTrouble> storage_trouble;
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
  // Manifests that no loader may be given. Their entries in the index are removed, even those newer
  // than the archives above.
  std::vector<std::string> distrusted;
  int64_t incomplete_timeout_ms = 60'000;
  int64_t taken = 0;  // of a "copy": how many of the named archives are here now
};

// For the installation's own registry. The operator decides about its rights.
struct RegistryTokenRequest {
  bool push = false;
  bool source = false;  // of a sweep Job: for what it copies from
};

// More is kept in the installation's own registry than may be.
inline constexpr char kQuotaExceeded[] = "quota_exceeded";

struct RegistryToken {
  std::string token;            // to be shown as Bearer
  int64_t expires_seconds = 0;  // from now
  bool push = false;            // nothing can be written with it otherwise
  // Why it cannot though that was asked for, one word: kQuotaExceeded, "mode_read_only", ...
  std::string reason;
};

// A message is at most so long, in bytes: a few hundred are usual, and a sweep's pages are long
// (5,000 blobs are 500 KB). A longer one is refused.
inline constexpr size_t kLongestMessage = 256U << 10;
inline constexpr size_t kLongestSweepMessage = 2U << 20;

// "LoadRequest"
template <typename Message>
std::string_view message_name();

// Converts between JSON text and message. parse() fails with kInvalid and names the message and the
// field.
template <typename Message>
Result<Message> parse(const std::string& text);
template <typename Message>
std::string dump(const Message& message);

std::string error_body(const Error& error);
// The Error behind an answer with that status and body.
Error error_of(int status, const std::string& body);
int http_status(ErrorCode code);

}  // namespace compilecache::api
