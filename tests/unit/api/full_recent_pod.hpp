#pragma once

#include "api/recent_pods.hpp"

namespace compilecache::api {

// With something in every field.
inline RecentPod full_recent_pod() {
  return {.pod = "pod",
          .pod_uid = "uid",
          .node = "node",
          .gpu_product = "H100",
          .archive = "a-1",
          .key = {{"GPUProduct", "H100"}},
          .load = "exact",
          .generation = 3,
          .milliseconds = 12,
          .wait_milliseconds = 5,
          .ask_milliseconds = 1,
          .wait_reason = "waiting_for_first",
          .bytes = 1000,
          .effect = "full",
          .reason = "reason",
          .message = "message",
          .loaded_entries = 3,
          .read_entries = 2,
          .new_entries = 1,
          .compiled = {"torch/fxgraph/ab/c"},
          .differing = {"VLLM_PORT"},
          .compile_milliseconds = 1500,
          .saved_milliseconds = 2500,
          .save = "unchanged",
          .save_reason = "unchanged",
          .time = "2024-01-01T00:00:00Z"};
}

}  // namespace compilecache::api
