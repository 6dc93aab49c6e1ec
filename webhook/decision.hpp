#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "api/reasons.hpp"

// The result of a step of the injection: a value, or why the pod is not injected. Internal to this
// folder.

namespace compilecache::webhook {

struct Skip {
  api::InjectionReason reason;
  // Details for people; empty: the reason's own sentence says enough.
  std::string detail;
};

template <typename T>
using Decided = tl::expected<T, Skip>;

inline tl::unexpected<Skip> skip(api::InjectionReason reason, std::string detail = {}) {
  return tl::unexpected<Skip>(Skip{reason, std::move(detail)});
}

}  // namespace compilecache::webhook
