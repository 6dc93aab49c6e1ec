#pragma once

#include <nlohmann/json.hpp>

namespace compilecache::webhook::testing {

// An annotated pod that is made up, within a property of rapidcheck. Many could not be created:
// mounts without a volume, resources that the pod as a whole cannot have.
nlohmann::json some_pod();

}  // namespace compilecache::webhook::testing
