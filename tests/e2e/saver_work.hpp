#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/place.hpp"

// A pod whose saver is harmed, looked at from the node and from the API server.

namespace compilecache::e2e {

inline constexpr char kSaverContainer[] = "compilecache-save";

// A manifest's container "app" is made to write one entry of a cache, with what `entry` prints, and
// to sleep. With a memory limit, so that our containers get one too.
void write_one_entry(nlohmann::json& pod_spec, const std::string& entry);

[[nodiscard]] bool is_ready(const nlohmann::json& pod);
// The kubelet's word on the saver's container; an empty object before it has one.
[[nodiscard]] nlohmann::json saver_status(const nlohmann::json& pod);
// The pod is ready, and neither the saver's container nor the first one was ever started again.
void expect_undisturbed(const nlohmann::json& pod);

enum class SaverProcess { kWork, kSupervisor };
// SIGKILL to the process on the node; whether there was one.
[[nodiscard]] bool kill_saver(const nlohmann::json& pod, SaverProcess which);
// The same to the work, while it writes a blob into the store: what it had begun stays there. False
// where it begins none within two minutes.
[[nodiscard]] bool kill_saver_while_it_writes(const nlohmann::json& pod, const Place& place,
                                              const std::string& cache);

}  // namespace compilecache::e2e
