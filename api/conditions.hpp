#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// Conditions of a status, by the conventions of the Kubernetes API, and their names here. Pure;
// safe from any thread.

namespace compilecache::api {

// The conditions of a CompileCache. The first two are True when all is well, the others when it is
// not.
inline constexpr char kReadyCondition[] = "Ready";
inline constexpr char kStorageReadyCondition[] = "StorageReady";
// Its reason while the store has not been prepared and nothing speaks against it: Unknown.
inline constexpr char kPreparingReason[] = "Preparing";
// Its reason while the claim's PersistentVolume has not been read: Unknown.
inline constexpr char kVolumeUnknownReason[] = "VolumeUnknown";
inline constexpr char kReconcilingCondition[] = "Reconciling";  // waiting can help
inline constexpr char kStalledCondition[] = "Stalled";  // only a change by its user can help
inline constexpr char kInjectionPausedCondition[] = "InjectionPaused";
// True where injected pods never reached the operator. With the reason below, new pods of the
// namespace are injected so that they do not ask it.
inline constexpr char kPodsUnheardCondition[] = "PodsUnheard";
inline constexpr char kNotAskedReason[] = "NotAsked";
// The reason where they were given an address of the operator that it does not have now.
inline constexpr char kAddressChangedReason[] = "AddressChanged";
// The reason of Ready=False while nobody can reach the operator.
inline constexpr char kOperatorUnreachableReason[] = "OperatorUnreachable";
// Only where spec.storage.copyFrom is: whether its archives are here.
inline constexpr char kArchivesCopiedCondition[] = "ArchivesCopied";
// Only where spec.save.allowedServiceAccounts is: whether all archives hold files of these alone.
inline constexpr char kSaversAllowedCondition[] = "SaversAllowed";

// The conditions of a CompileCacheArchive.
inline constexpr char kSuspectCondition[] = "Suspect";
inline constexpr char kCorruptCondition[] = "Corrupt";

struct Condition {
  std::string type;
  std::string status = "Unknown";  // True, False, Unknown
  std::string reason;              // one CamelCase word
  std::string message;
  std::string last_transition_time;
  int64_t observed_generation = 0;
};

// The condition of that type, or nullptr.
const Condition* find_condition(const std::vector<Condition>& conditions, const std::string& type);
bool is_true(const std::vector<Condition>& conditions, const std::string& type);
// Whether new pods of the namespace are injected so that they do not ask the operator.
bool is_not_asked(const std::vector<Condition>& conditions);
// Adds or replaces a condition. Its transition time moves only when the status changes. Returns
// whether anything changed.
bool set_condition(std::vector<Condition>& conditions, Condition condition, const std::string& now);

nlohmann::json conditions_json(const std::vector<Condition>& conditions);
std::vector<Condition> parse_conditions(const nlohmann::json& status);

}  // namespace compilecache::api
