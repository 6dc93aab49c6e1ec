#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frameworks/trap.hpp"

namespace compilecache::cli {

struct DetectedFrameworks {
  std::vector<std::string> frameworks;  // for spec.frameworks; never empty
  bool start_kit = false;               // what the engine leaves off has to be switched on
  std::string why;                      // for people: "container app runs vllm"
};

// The frameworks that a pod of this template probably uses, by images, commands and variables of
// its containers. The traps of the settings know engines that need a framework of their own; torch
// and triton where nothing is recognised. Pure.
//
//   detect_frameworks(pod_template, settings.traps).frameworks   // {"vllm", "torch", "triton"}
DetectedFrameworks detect_frameworks(const nlohmann::json& pod_template,
                                     const std::vector<frameworks::Trap>& traps);

}  // namespace compilecache::cli
