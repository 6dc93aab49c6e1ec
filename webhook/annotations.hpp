#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "api/choices.hpp"
#include "webhook/decision.hpp"
#include "webhook/pod_json.hpp"

// What the user wrote on the pod template, all of it read before anything is built. Pure.

namespace compilecache::webhook {

struct PodAnnotations {
  std::string cache;
  api::Mode mode = api::Mode::kReadWrite;
  std::vector<std::string> containers;  // empty: chosen by what they request
  std::optional<std::string> version;   // instead of spec.version
  std::vector<std::string> frameworks;  // empty: spec.frameworks
  bool only_if_unset = false;           // as if every framework said so
  std::optional<std::chrono::milliseconds> quiet_period;
  std::optional<std::chrono::milliseconds> wait_for_first;
  // Annotations of our domain that mean nothing to us, misspelt most likely; the first eight.
  std::vector<std::string> unknown;
};

// Skips with kNotAnnotated, or kAnnotationInvalid naming the annotation, its value and what is
// allowed. Whether frameworks and containers exist is for those who know them to say.
Decided<PodAnnotations> read_annotations(const Json& pod);

}  // namespace compilecache::webhook
