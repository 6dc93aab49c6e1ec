#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/store_ref.hpp"

// A Job in which compilecache-agent looks at the store on a volume, made with the caller's
// rights: its manifest, and the reading of its pod. It mounts the claim, read-only where it can,
// has no token and no privileges, and fits Pod Security "restricted". Pure.

namespace compilecache::cli {

struct ToolJobInput {
  std::string name;
  api::VolumeRef volume;
  std::string image;  // of compilecache-agent
  // Of the agent, store_path() among them. None: the Job waits, and who made it runs in it what it
  // has to.
  std::vector<std::string> arguments;
  std::string node;  // where it has to run; empty: anywhere
  std::chrono::seconds deadline{600};
  bool writes = false;  // into the volume
  std::string clears;   // of a Job that waits: the folder that it removes when it ends, however
};
nlohmann::json tool_job(const ToolJobInput& input);

// The Job's only container, for `kubectl exec`.
inline constexpr char kToolContainer[] = "agent";

// The store's folder in the Job's container.
std::string store_path(const api::VolumeRef& volume);

// Facts from the namespace's pods: which image the operator uses there, and on which node a claim
// is mounted by now, which is where a ReadWriteOnce claim can be mounted once more. Empty: they
// do not.
std::string agent_image_in(const nlohmann::json& pods);
std::string node_of_claim(const nlohmann::json& pods, const std::string& claim);

struct ToolPod {
  std::string name;
  std::string trouble;  // why it does not run; empty: nothing is wrong as yet
  bool running = false;
  std::optional<int> exit_code;  // once it has ended
};
ToolPod read_tool_pod(const nlohmann::json& pod);

}  // namespace compilecache::cli
