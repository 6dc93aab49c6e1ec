#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/cluster/cluster.hpp"

namespace compilecache::cli {

// Has the operator copy archives into a CompileCache that there is: sets its
// spec.storage.copyFrom. The object as it is then.
Result<nlohmann::json> ask_for_copy(const Cluster& cluster, const std::string& name,
                                    const nlohmann::json& copy_from);

// Takes that back: what is copied is here, and no more comes.
void take_back_copy(const Cluster& cluster, const std::string& name);

// Waits until the copy that was asked for with that generation of the CompileCache has ended, and
// tells `progress` what the operator says meanwhile. What it says at the end; kTimeout: it has not
// ended, and goes on; kUnavailable: it failed, and is tried again by the operator.
Result<std::string> wait_for_copy(const Cluster& cluster, const std::string& name,
                                  int64_t generation, std::chrono::seconds limit,
                                  std::ostream& progress);
// That error for people, where the copy is not taken back.
Error still_copying(const Error& error, const Cluster& cluster, const std::string& name);

}  // namespace compilecache::cli
