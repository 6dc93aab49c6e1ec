#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// What separates one archive from another.
//
//   KeyBasis basis = ...;                       // what the pod says, noted by the webhook
//   NodeFacts node{"NVIDIA-H100-80GB-HBM3", "amd64"};
//   auto key = make_key(basis, node);           // {"GPUProduct": ..., "GPUCount": "1", ...}
//   archive_name("transformer", *key);          // "transformer-3f9a1c04b2"
//
// Pure functions; safe from any thread.

namespace compilecache::api {

// Parts that spec.key may name, in the spelling of the CRD.
inline constexpr char kGpuProductPart[] = "GPUProduct";
inline constexpr char kGpuCountPart[] = "GPUCount";
inline constexpr char kArchitecturePart[] = "Architecture";
inline constexpr char kImagePart[] = "Image";
inline constexpr char kWorkloadPart[] = "Workload";
inline constexpr char kDriverVersionPart[] = "DriverVersion";
inline constexpr char kCpuFeaturesPart[] = "CPUFeatures";
// Always in the key where they have a value: spec.version or the pod's annotation, and a cache
// directory the user chose (absolute paths are embedded in archives, so they do not fit elsewhere).
inline constexpr char kVersionPart[] = "Version";
inline constexpr char kDirectoriesPart[] = "Directories";

// Name of a part to its value; only the parts that count are present. Empty values are left out.
using ArchiveKey = std::map<std::string, std::string>;

// What the pod contributes to its key; known at admission.
struct KeyBasis {
  std::vector<std::string> parts;  // spec.key, and what the frameworks add
  std::string gpu_resource;  // "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"; empty: no GPU requested
  int gpu_count = 0;         // of the chosen containers
  std::string image;         // reference of the first chosen container
  std::string workload;      // top owner, "Deployment/name"
  std::string version;
  std::string directories;  // "torch=/my/dir" where the user chose one

  bool operator==(const KeyBasis&) const = default;
};

// By which labels of a node NodeFacts are read.
struct NodeLabels {
  // Of the GPU's product and the driver's version; the first that is present counts.
  std::vector<std::string> gpu_product{"nvidia.com/gpu.product"};
  // Labels that make one version together are joined by '+'.
  std::vector<std::string> driver_version{"nvidia.com/cuda.driver-version.full"};
  // They stand for instruction sets in the key of pods without a GPU. Those that say
  // "true" are joined by their last part: "AVX2+AVX512F". No such labels on the nodes: nothing in
  // the key.
  std::vector<std::string> cpu_features;

  bool operator==(const NodeLabels&) const = default;
};

// What the node contributes; known when the pod runs.
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

// Fails with kUnavailable when the pod requests a GPU and the node has no product label (yet).
// No GPU requested: the product is "cpu-<arch>", with the CPU's features always in the key.
Result<ArchiveKey> make_key(const KeyBasis& basis, const NodeFacts& node);

// The CompileCache's name and ten digits of the SHA-256 of the key's canonical text.
std::string archive_name(std::string_view cache, const ArchiveKey& key);

// All parts equal except the image.
bool is_compatible(const ArchiveKey& archive, const ArchiveKey& pod);

}  // namespace compilecache::api
