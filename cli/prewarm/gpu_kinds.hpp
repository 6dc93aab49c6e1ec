#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "api/archive_key.hpp"

// The kinds of nodes that a pod may run on, as archives separate them: one kind for each key.
//
//   for (const GpuKind& kind : gpu_kinds(basis, pod_spec, nodes, labels)) {
//     const std::string archive = api::archive_name(cache, kind.key);
//     restrict_to(kind, pod_spec);    // the pod goes there, and only there
//   }
//
// Pure; safe from any thread.

namespace compilecache::cli {

struct GpuKind {
  std::string product;  // "NVIDIA-H100-80GB-HBM3", "cpu-amd64"; of several, those joined by ", "
  api::ArchiveKey key;
  std::set<std::string> nodes;
  // Requirements of node affinity; a node that meets all of one of them is of this kind.
  std::set<nlohmann::json> terms;
};

// By the nodes (whole objects) that the pod's spec may go to and that have the GPUs that `basis`
// asks for. Sorted by product. Nothing for pods that get devices by claims: their key is known only
// when they run.
std::vector<GpuKind> gpu_kinds(const api::KeyBasis& basis, const nlohmann::json& pod_spec,
                               const std::vector<nlohmann::json>& nodes,
                               const api::NodeLabels& labels);

// Narrows the pod's node affinity; what it already requires still holds.
void restrict_to(const GpuKind& kind, nlohmann::json& pod_spec);

}  // namespace compilecache::cli
