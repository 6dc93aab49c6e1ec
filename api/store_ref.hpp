#pragma once

#include <optional>
#include <string>
#include <variant>

// The place of a CompileCache's archives. It is made once, of the CompileCache. It goes unchanged
// to the counters of loads, saves and sweep Jobs at a time, and to the volumes of pods and Jobs. In
// the agent's configuration it reaches the agent, which opens it.
//
//   const auto store = store_of(cache, own_registry);   // nothing: it has none
//   traffic.begin(store->id(), ...);         // "volume/ml/caches"
//   store->volume()->claim;                  // "caches"; volume() is nullptr for another kind
//
// A new kind of store is an alternative with an id(), made by store_of(). Values; no I/O.

namespace compilecache::api {

struct CompileCache;

// A folder on the volume of a PersistentVolumeClaim.
struct VolumeRef {
  std::string ns;     // the claim's, and that of all pods that mount it
  std::string claim;  // the claim's name
  std::string path;   // of the CompileCache's store below the volume's root: "<subPath>/<cache>"

  [[nodiscard]] std::string id() const { return "volume/" + ns + "/" + claim; }
  bool operator==(const VolumeRef&) const = default;
};

// A repository of an OCI registry.
struct RegistryRef {
  std::string host;        // "harbor.example.com", "10.0.0.7:5000", "[fd00::7]:5000"
  std::string repository;  // "ml/caches/team-a/llama": where this CompileCache's archives are
  // What its requests are shared with: "ml/caches" for a user's registry; empty for the
  // installation's own, which all CompileCaches share.
  std::string parent;
  // The installation's own registry: the operator mints its tokens, and `address` is where it is,
  // since pods on the host's network have no cluster DNS.
  bool own = false;
  std::string address;
  // A user's registry: objects of the CompileCache's namespace, mounted in our containers alone.
  std::string secret;         // kubernetes.io/dockerconfigjson; empty: anonymous
  std::string ca_config_map;  // with ca.crt; empty: the system's authorities do

  [[nodiscard]] std::string id() const {
    return own ? "registry" : "registry/" + host + "/" + parent;
  }
  bool operator==(const RegistryRef&) const = default;
};

struct StoreRef : std::variant<VolumeRef, RegistryRef> {
  using variant::variant;

  // What limits are counted by: the same for all that burden the same volume or registry, whatever
  // folder or repository of it they use. Two StoreRefs are equal only when these are the same too.
  [[nodiscard]] std::string id() const;
  [[nodiscard]] const VolumeRef* volume() const { return std::get_if<VolumeRef>(this); }
  [[nodiscard]] const RegistryRef* registry() const { return std::get_if<RegistryRef>(this); }
  bool operator==(const StoreRef&) const = default;
};

// The installation's own registry, which serves CompileCaches with an empty spec.storage. By
// default there is none.
struct OwnRegistry {
  std::string host;     // as its certificate names it: "compilecache-registry.<ns>.svc:5000"
  std::string address;  // its Service's ClusterIP and port: "10.96.0.7:5000"

  [[nodiscard]] bool installed() const { return !host.empty(); }
  bool operator==(const OwnRegistry&) const = default;
};

// Nothing: the CompileCache keeps no archives (spec.storage is absent), or would keep them in the
// installation's own registry, and there is none.
std::optional<StoreRef> store_of(const CompileCache& cache, const OwnRegistry& own);

// Where archives are to be copied from (spec.storage.copyFrom); nothing: from nowhere, or from the
// installation's own registry, and there is none.
std::optional<StoreRef> copy_source_of(const CompileCache& cache, const OwnRegistry& own);
// The same for people, and as what is remembered of a copy: "claim caches, llama".
std::string copy_source_in_words(const CompileCache& cache);

// Whether that is where its own archives are, so that there is nothing to copy.
bool copies_from_itself(const CompileCache& cache);

// Where a CompileCache keeps its archives, for people: "claim caches",
// "harbor.example.com/ml/caches", "registry" for the installation's own; "" for nowhere.
std::string store_in_words(const CompileCache& cache);

}  // namespace compilecache::api
