#pragma once

#include <string>

#include "api/compile_cache.hpp"

// Counters in words, for the columns of `kubectl get cc,cca`: a column shows one value as it is, so
// that "592 kB" or "3 exact, 1 missing" must stand in the status as text. Pure functions.

namespace compilecache::api {

// "3 exact, 1 missing": what is zero is left out; empty when all is.
std::string summary(const LoadCounters& loads);
// "2 full, 1 partial"
std::string summary(const EffectCounters& effect);
// "4 committed, 1 failed"; those that found nothing new are not told.
std::string summary(const SaveCounters& saves);

}  // namespace compilecache::api
