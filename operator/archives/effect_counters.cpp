#include "operator/archives/effect_counters.hpp"

namespace compilecache::controller {

int64_t& counter_of(api::EffectCounters& counters, api::Effect effect) {
  switch (effect) {
    case api::Effect::kFull:
      return counters.full;
    case api::Effect::kPartial:
      return counters.partial;
    case api::Effect::kNone:
      return counters.none;
    case api::Effect::kUnused:
      return counters.unused;
    case api::Effect::kUnknown:
      break;
  }
  return counters.unknown;
}

}  // namespace compilecache::controller
