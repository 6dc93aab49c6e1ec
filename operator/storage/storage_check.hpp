#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/registry_trouble.hpp"
#include "api/store_ref.hpp"
#include "base/error.hpp"
#include "kube/fields.hpp"

// Checks whether a CompileCache's store can hold archives, and whether its claim can be mounted
// into any pod of its namespace without harm. The verdict becomes the condition StorageReady,
// without which no pod is injected. The operator does not read users' Secrets: the
// sweep Job, which mounts one, reports its faults.
//
//   StorageFacts facts{.store = ..., .claim = ..., .volume = ..., .prepared = true};
//   StorageVerdict verdict = check_storage(cache.spec.storage, facts);
//
// Pure; safe from any thread.

namespace compilecache::controller {

// A PersistentVolumeClaim, as far as we use it.
struct ClaimView {
  std::string ns, name, uid;
  std::string phase;                      // Pending, Bound, Lost
  std::vector<std::string> access_modes;  // of the volume when bound, else as asked for
  std::string volume_name;                // empty: not bound
  std::string storage_class;
  bool deleting = false;
};
Result<ClaimView> parse_claim(const nlohmann::json& object);
const kube::Fields& claim_fields();  // what it looks at

// A PersistentVolume, as far as we use it.
struct VolumeView {
  bool has_node_affinity = false;
};
VolumeView parse_volume(const nlohmann::json& object);

inline constexpr char kRegistryTroubleCondition[] = "RegistryTrouble";
// Its reasons.
inline constexpr char kRegistryFull[] = "RegistryFull";
inline constexpr char kRegistryDamaged[] = "RegistryDamaged";
inline constexpr char kRegistryNotCollected[] = "RegistryNotCollected";
inline constexpr char kRegistryNotChecked[] = "RegistryNotChecked";

// The fault of the installation's own registry.
struct OwnRegistryTrouble {
  std::string reason;   // of the condition RegistryTrouble: "RegistryFull"; empty: nothing is
  std::string message;  // for people: what, and what to do
};

struct StorageFacts {
  std::optional<api::StoreRef> store;  // nothing: it has none (yet)
  std::optional<ClaimView> claim;
  std::optional<VolumeView> volume;  // the bound claim's; nothing: not yet known
  // The result of the last sweep Job that reported.
  bool prepared = false;
  std::string storage_error;                            // why the store cannot be used
  std::optional<api::RegistryTrouble> storage_trouble;  // the same as a registry's word
  // Why nothing more may be saved, though all that is there can be loaded. Empty: there is room.
  std::string over_quota;
  // Where the store is in the installation's own registry.
  std::optional<OwnRegistryTrouble> own_registry;
  // Why no Job ends: "its pod cannot be scheduled: ...". Empty: there is no trouble.
  std::string job_trouble;
  // Why a store that can be used is not swept. Empty: there is no trouble.
  std::string sweep_trouble;
  // Why the last Job that was to copy archives did not get to it. Empty: there is no trouble.
  std::string copy_trouble;
};

// The reason where the store is ready, but is not swept.
inline constexpr char kNotSwept[] = "NotSwept";

struct StorageVerdict {
  std::string status;   // of the condition: True, False, Unknown
  std::string reason;   // "Ready", "ClaimNotFound", ...
  std::string message;  // what is wrong and what to do
  // Whether a Job that prepares the store may be created now; that often binds an unbound claim.
  bool may_prepare = false;
  // Whether only a change by the user can help, and not waiting.
  bool stalled = false;

  [[nodiscard]] bool ready() const { return status == "True"; }
};

// `storage`: nothing where the CompileCache keeps no archives.
StorageVerdict check_storage(const std::optional<api::CompileCacheSpec::Storage>& storage,
                             const StorageFacts& facts);

// Whether the reason is a fault that waiting alone will seldom fix; an Event reports it as a
// warning.
bool is_fault(std::string_view reason);

// Whether the claim may be mounted on one node only, so that Jobs have to run where it is attached.
bool is_single_node(const ClaimView& claim);

}  // namespace compilecache::controller
