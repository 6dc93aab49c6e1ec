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
  std::string after;                      // an init container; empty: injected first
  std::optional<api::Delivery> delivery;  // instead of spec.delivery
  std::optional<std::chrono::milliseconds> quiet_period;
  std::optional<std::chrono::milliseconds> wait_for_first;
};

// Skips with kNotAnnotated, or kAnnotationInvalid naming the annotation, its value and the allowed
// ones. It does not check whether frameworks and containers exist.
Decided<PodAnnotations> read_annotations(const Json& pod);

// A warning for each annotation of compilecache.dev that does not exist, eight at most, and for a
// pod whose CompileCache is a label instead of an annotation. The pod may name no CompileCache.
std::vector<std::string> spelling_warnings(const Json& pod);

}  // namespace compilecache::webhook
