#pragma once

#include <string>

#include "api/compile_cache.hpp"

// Counters in words, for the columns of `kubectl get cc,cca`: a column shows one value as it is, so
// "592 kB" or "3 exact, 1 missing" has to be in the status as text. Pure functions.

namespace compilecache::api {

// "3 exact, 1 missing". Zeros are left out; the text is empty when all are zero.
std::string summary(const LoadCounters& loads);
// "2 full, 1 partial"
std::string summary(const EffectCounters& effect);
// "4 committed, 1 failed". Saves that found nothing new are left out.
std::string summary(const SaveCounters& saves);

}  // namespace compilecache::api
