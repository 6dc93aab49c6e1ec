#pragma once

#include <cstdint>
#include <string>

#include "api/compile_cache.hpp"

// Counters in words, for the columns of `kubectl get cc,cca`: a column shows one value as it is. So
// "592 kB" or "3 exact, 1 missing" has to be in the status as text. Pure functions.

namespace compilecache::api {

// "3 exact, 1 missing". Zeros are left out; the text is empty when all are zero.
std::string summary(const LoadCounters& loads);
// "2 full, 1 partial"
std::string summary(const EffectCounters& effect);
// "4 committed, 1 failed". Saves that found nothing new are left out.
std::string summary(const SaveCounters& saves);

// The share of loads that found an archive: "75%". Empty without a load. "100%" means all of them,
// and "0%" none.
std::string hit_rate(const LoadCounters& loads);
// The most frequent effect with its share, the better one of two: "full" if all are, or "97% full".
std::string main_effect(const EffectCounters& effect);
// "40s", "12m", "5h12m", "3d4h"; empty for less than a second.
std::string time_saved(int64_t seconds);

}  // namespace compilecache::api
