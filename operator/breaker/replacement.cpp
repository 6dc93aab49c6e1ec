#include "operator/breaker/replacement.hpp"

#include <algorithm>

namespace compilecache::controller {
namespace {

// For the other replicas' webhooks to hear that injection is paused.
constexpr std::chrono::seconds kHeard{3};

}  // namespace

Replacement choose_replacement(const StuckPods& seen, const ReplacementInput& input,
                               const Settings::Breaker& rules) {
  if (!input.open || !input.written_open) return {};
  const auto next = std::find_if(seen.pods.begin(), seen.pods.end(), [&](const StuckPod& pod) {
    return pod.replaceable && !input.replaced.contains(pod.uid);
  });
  if (next == seen.pods.end()) return {};
  const Duration heard = input.now - *input.written_open;
  if (heard < kHeard) return {.again = kHeard - heard};
  if (input.replaced_last && input.now - *input.replaced_last < rules.replace_interval) {
    return {.again = *input.replaced_last + rules.replace_interval - input.now};
  }
  return {.pod = &*next, .again = rules.replace_interval};
}

}  // namespace compilecache::controller
