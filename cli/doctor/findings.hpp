#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// What `kubectl compilecache doctor` has found, for people and for scripts. Pure.
//
//   Findings findings{{Level::kFail, "webhook", "no endpoint is ready", "kubectl get pods -n …"}};
//   std::cout << text_of(findings);       // "FAIL  webhook       no endpoint is ready; …"

namespace compilecache::cli {

enum class Level {
  kOk,
  kWarn,       // it works, but not for all, or not for long
  kFail,       // pods are not injected, or load or save nothing
  kUnchecked,  // it could not be read
};

struct Finding {
  Level level = Level::kOk;
  std::string check;  // "webhook"
  std::string text;   // what is so
  std::string next;   // what to do; empty: nothing
};
using Findings = std::vector<Finding>;

// A line each, wrapped at 100 columns, and one that counts them.
std::string text_of(const Findings& findings);

// {"findings": [{"level", "check", "text", "next"}], "ok": 3, "warn": 0, "fail": 1, "skip": 1}
nlohmann::json json_of(const Findings& findings);

bool any_failed(const Findings& findings);

}  // namespace compilecache::cli
