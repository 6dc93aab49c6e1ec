#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/device_facts.hpp"
#include "base/error.hpp"

// The key of an archive: all that separates it from others of the same CompileCache.
//
//   KeyBasis basis = ...;                       // what the pod contributes, noted by the webhook
//   NodeFacts node{"NVIDIA-H100-80GB-HBM3", "amd64"};
//   auto key = make_key(basis, node);           // {"GPUProduct": ..., "GPUCount": "1", ...}
//   archive_name("transformer", *key);          // "transformer-3f9a1c04b2"
//
// Pure functions; safe from any thread.

namespace compilecache::api {

// The parts that spec.key may name, spelled as in the CRD.
inline constexpr char kGpuProductPart[] = "GPUProduct";
inline constexpr char kGpuCountPart[] = "GPUCount";
inline constexpr char kArchitecturePart[] = "Architecture";
inline constexpr char kImagePart[] = "Image";
inline constexpr char kWorkloadPart[] = "Workload";
inline constexpr char kDriverVersionPart[] = "DriverVersion";
inline constexpr char kCpuFeaturesPart[] = "CPUFeatures";
// These are in the key whenever they have a value: spec.version or the pod's annotation, and a
// cache directory that the user chose. Frameworks embed absolute paths, so an archive fits no other
// directory.
inline constexpr char kVersionPart[] = "Version";
inline constexpr char kDirectoriesPart[] = "Directories";

// The hosts that the archive's code for CPUs was compiled for (frameworks/cpu.hpp), decided on the
// node and never named in spec.key. The name of a kind of CPU, or kAnyCpu where the archive holds
// no such code. Archives of 0.2 and earlier do not have it: nobody knows.
inline constexpr char kCpuPart[] = "CPU";
inline constexpr char kAnyCpu[] = "any";
// Instead of a kind's name where the node's features cannot be read.
inline constexpr char kUnknownCpu[] = "unknown";

// Maps a part's name to its value. Only the parts that count are present, and none with an empty
// value.
using ArchiveKey = std::map<std::string, std::string>;

// The pod's part of its key, known at admission.
struct KeyBasis {
  std::vector<std::string> parts;  // spec.key, and what the frameworks add
  // "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"; kClaimedDevices; empty: no GPU requested
  std::string gpu_resource;
  int gpu_count = 0;     // of the chosen containers
  std::string image;     // reference of the first chosen container
  std::string workload;  // top owner, "Deployment/name"
  std::string version;
  std::string directories;  // "torch=/my/dir" where the user chose one
  // The pod's claims that the chosen containers use, "CLAIM" or "CLAIM/REQUEST": product, count and
  // driver are those of the devices that these were given. Nothing: there are none.
  std::optional<std::vector<std::string>> claims = {};

  bool operator==(const KeyBasis&) const = default;
};

// The names of the node labels from which NodeFacts are read.
struct NodeLabels {
  // Labels with the GPU's product; the first one that a node has counts. The same holds for the
  // driver's version below.
  std::vector<std::string> gpu_product{"nvidia.com/gpu.product"};
  // Labels that make one version together are joined by '+'.
  std::vector<std::string> driver_version{"nvidia.com/cuda.driver-version.full"};
  // Labels for instruction sets, which go into the key of pods without a GPU. The last parts of
  // those with the value "true" are joined: "AVX2+AVX512F". Where a node has no such label nothing
  // goes into the key.
  std::vector<std::string> cpu_features;

  bool operator==(const NodeLabels&) const = default;
};

// The node's part of the key, known when the pod runs.
struct NodeFacts {
  std::string gpu_product;   // as the node's label says; empty: no such label (yet)
  std::string architecture;  // "amd64"
  std::string driver_version;
  std::string cpu_features;  // names the instruction set for archives of pods without a GPU

  bool operator==(const NodeFacts&) const = default;
};

// "-SHARED" (time slicing: the same kernels) is stripped, "-MIG-…" kept; a resource of mixed MIG
// mode (nvidia.com/mig-1g.5gb) is appended to the full GPU's product as in single mode:
// "…-MIG-1g.5gb".
std::string normalized_gpu_product(std::string_view product, std::string_view gpu_resource);

// Fails with kUnavailable when the pod requests a GPU and the node has no product label (yet), or
// gets it by claims and `devices`, which it was given, are not known.
// No GPU requested: the product is "cpu-<arch>", with the CPU's features always in the key.
Result<ArchiveKey> make_key(const KeyBasis& basis, const NodeFacts& node,
                            const DeviceFacts* devices = nullptr);

// The CompileCache's name and ten digits of the SHA-256 of the key's canonical text.
std::string archive_name(std::string_view cache, const ArchiveKey& key);

// Whether all parts are equal except the CPU; and except the image, too.
bool is_same_but_cpu(const ArchiveKey& archive, const ArchiveKey& pod);
bool is_compatible(const ArchiveKey& archive, const ArchiveKey& pod);

// "" where the key does not say.
std::string cpu_of(const ArchiveKey& key);
// An empty `cpu` takes the part away.
ArchiveKey with_cpu(ArchiveKey key, const std::string& cpu);
// Whether an agent may say that it runs on such a kind of CPU, or saves for it. "" is one of 0.2 or
// earlier, which does not say.
bool is_cpu_name(std::string_view text);

// How far an archive's code for CPUs fits a host, in the order of preference.
enum class CpuFit {
  kOther,     // compiled for another kind of CPU: never loaded
  kUnproven,  // nobody knows: loaded only where a look at its files finds no such code
  kAny,       // it holds none
  kOwn        // compiled for this kind
};
// `host` is the name of the host's kind. A host that does not say is of 0.2 or earlier: what was
// saved by its like fits as it did then.
CpuFit cpu_fit(const ArchiveKey& archive, const std::string& host);

}  // namespace compilecache::api
