#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "base/error.hpp"
#include "kube/fields.hpp"

// Whether a CompileCache's claim can hold archives and can be mounted into any pod of its namespace
// without harm. The answer becomes the condition StorageReady, which opens and closes injection.
//
//   StorageFacts facts{.claim = ..., .volume = ..., .prepared = true};
//   StorageVerdict verdict = check_storage(cache.spec.storage, facts);
//
// Pure; safe from any thread.

namespace compilecache::controller {

// What we use of a PersistentVolumeClaim.
struct Claim {
  std::string ns, name, uid;
  std::string phase;                      // Pending, Bound, Lost
  std::vector<std::string> access_modes;  // of the volume when bound, else as asked for
  std::string volume_name;                // empty: not bound
  std::string storage_class;
  bool deleting = false;
};
Result<Claim> parse_claim(const nlohmann::json& object);
const kube::Fields& claim_fields();  // what it looks at

// What we use of a PersistentVolume.
struct Volume {
  bool has_node_affinity = false;
};
Volume parse_volume(const nlohmann::json& object);

struct StorageFacts {
  std::optional<Claim> claim;
  std::optional<Volume> volume;  // of a bound claim; nothing: not yet known
  // What the last sweep Job that came to an end found; nothing while none has.
  bool prepared = false;
  std::string storage_error;  // why the volume cannot be used
  // Why no Job comes to an end: "its pod cannot be scheduled: ...". Empty: it is under way.
  std::string job_trouble;
};

struct StorageVerdict {
  std::string status;   // of the condition: True, False, Unknown
  std::string reason;   // "Ready", "ClaimNotFound", ...
  std::string message;  // what is wrong and what to do
  // Whether a Job that prepares the store may be made now; an unbound claim is often bound by it.
  bool may_prepare = false;
  // Whether waiting can help, or only a change by the user.
  bool stalled = false;

  [[nodiscard]] bool ready() const { return status == "True"; }
};

// `storage`: nothing where the CompileCache keeps no archives.
StorageVerdict check_storage(const std::optional<api::CompileCacheSpec::Storage>& storage,
                             const StorageFacts& facts);

// Whether the claim may be mounted on one node only, so that Jobs have to run where it is attached.
bool is_single_node(const Claim& claim);

}  // namespace compilecache::controller
