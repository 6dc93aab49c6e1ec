#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/archive_key.hpp"
#include "api/compile_cache.hpp"
#include "api/store_ref.hpp"
#include "api/words.hpp"
#include "base/error.hpp"

// The CompileCacheArchive resource: one for each key. Its status is the truth about the current
// archive and the right to save; lock and head change in one compare-and-swap.

namespace compilecache::api {

// One committed generation of an archive. Digests are "sha256:<64 hex digits>".
struct ArchiveHead {
  std::string manifest_digest;  // empty: none
  int64_t generation = 0;
  int64_t compressed_bytes = 0, plain_bytes = 0, files = 0, layers = 0;
  double compile_seconds = 0;
  // Files that it lacks, because its saver may not read them or they are too large.
  int64_t left_out = 0;
  std::string saved_at, saved_by, image_id;
  std::vector<std::string> blobs;  // every blob it needs: manifest, config, layers
  // Who saved it: the pod's service account and its workload ("Deployment/llama"). Both are empty
  // where releases before 0.3 saved it, or it was copied or taken over.
  std::string service_account = {}, workload = {};
  // Other service accounts whose files it may hold: those of the generations that it extends, and
  // of what its saver had loaded. Sorted, at most kMostAccounts, or else kManyAccounts alone.
  std::vector<std::string> earlier_accounts = {};

  [[nodiscard]] bool exists() const { return !manifest_digest.empty(); }
  bool operator==(const ArchiveHead&) const = default;
};

inline constexpr size_t kMostAccounts = 32;
inline constexpr char kManyAccounts[] =
    "*";  // more than are kept; no service account has that name

// Whether pods may be given it where only those service accounts may save (empty: all may): all
// accounts whose files it may hold are among them. Without known accounts they may: it was saved
// under earlier releases' check, or brought in with the right to write the CompileCache.
bool saved_by_allowed(const ArchiveHead& head, const std::vector<std::string>& allowed);

// The lock of saves: its holder alone may commit. The fence only grows, across holders and leaders
// too; it stays when the lock is released.
struct SaveLock {
  std::string holder;  // "<pod uid>/<nonce of the attempt>"; empty: free
  std::string pod;
  int64_t fence = 0;
  std::string acquired_at;
  bool operator==(const SaveLock&) const = default;
};

// Why a blob is not to be trusted; also the reason of the condition that says so.
enum class DistrustReason {
  kLoadReportedCorruption,  // Suspect: a pod has read other bytes than its digest promises
  kPodsCrashed,             // Suspect: pods crash that had loaded the manifest
  kVerificationFailed       // Corrupt: a sweep Job has found that out, too
};
template <>
inline constexpr auto kWords<DistrustReason> = std::to_array<Word<DistrustReason>>(
    {{DistrustReason::kLoadReportedCorruption, "LoadReportedCorruption"},
     {DistrustReason::kPodsCrashed, "PodsCrashed"},
     {DistrustReason::kVerificationFailed, "VerificationFailed"}});

// A blob that is not what was saved, or may not be, or makes pods crash. What contains it is handed
// out to no pod while the condition is True that its reason belongs to.
struct DistrustedBlob {
  std::string digest;
  DistrustReason reason = DistrustReason::kLoadReportedCorruption;
  std::string since;  // RFC 3339
  bool operator==(const DistrustedBlob&) const = default;
};
inline constexpr size_t kMostDistrusted = 256;

// Which ranks' folders pods with one place in their groups were seen to use, of the folders with
// one parent (frameworks/ranks.hpp).
struct RankRecord {
  std::string member;              // the place: "worker-index=1"
  std::string layout;              // the parent: "vllm/torch_compile_cache/0123456789"
  std::vector<std::string> ranks;  // names below it, sorted: "rank_4_0"
  int64_t pods = 0;                // in a row that used these and no others
  std::string pod;                 // uid of the last one
  bool moves = false;              // another pod used others than the first: not to be relied on
  bool operator==(const RankRecord&) const = default;
};
inline constexpr size_t kMostRankRecords = 256, kMostRanksOfMember = 64;

struct CompileCacheArchive {
  ObjectMeta metadata;
  std::string cache;  // the CompileCache's name
  std::string cache_uid;
  ArchiveKey key;
  std::optional<StoreRef> store;  // as far as it is noted; nothing: it is not

  ArchiveHead head, previous;
  SaveLock lock;
  std::string last_used_time;
  LoadCounters loads;
  EffectCounters effect;
  std::vector<DistrustedBlob> distrusted;  // latest last; at most kMostDistrusted
  std::vector<Condition> conditions;       // Suspect, Corrupt
  std::vector<RankRecord> ranks;           // the last changed at the end; at most kMostRankRecords
};

// Suspect: not to be handed out until it has been checked. Corrupt: checked, and damaged.
bool is_suspect(const CompileCacheArchive& archive);
// Whether it is suspect because pods that had loaded it crashed.
bool is_crashing(const CompileCacheArchive& archive);
bool is_corrupt(const CompileCacheArchive& archive);

Result<CompileCacheArchive> parse_archive(const nlohmann::json& object);
// The object to create: metadata with labels and owner reference, and the spec.
nlohmann::json new_archive_json(const CompileCacheArchive& archive);
nlohmann::json status_json(const CompileCacheArchive& archive);

}  // namespace compilecache::api
