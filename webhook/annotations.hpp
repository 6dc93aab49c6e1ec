#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "api/choices.hpp"
#include "webhook/decision.hpp"
#include "webhook/pod_json.hpp"

// Reads the user's annotations on the pod template, all of them before anything is built. Pure.

namespace compilecache::webhook {

struct PodAnnotations {
  std::string cache;
  api::Mode mode = api::Mode::kReadWrite;
  std::vector<std::string> containers;    // empty: chosen by what they request
  std::optional<std::string> version;     // instead of spec.version
  std::vector<std::string> frameworks;    // empty: spec.frameworks
  bool only_if_unset = false;             // as if every framework's description had it
  std::optional<bool> start_kit;          // instead of spec.startKit
  std::string after;                      // an init container; empty: ours are first
  std::optional<api::Delivery> delivery;  // instead of spec.delivery
  std::optional<std::chrono::milliseconds> quiet_period;
  std::optional<std::chrono::milliseconds> wait_for_first;
  // The first eight annotations of our domain that we do not know, most likely misspelt.
  std::vector<std::string> unknown;
};

// Skips with kNotAnnotated, or kAnnotationInvalid naming the annotation, its value and what is
// allowed. It does not check whether frameworks and containers exist.
Decided<PodAnnotations> read_annotations(const Json& pod);

}  // namespace compilecache::webhook
