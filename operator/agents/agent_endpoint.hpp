#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.hpp"
#include "kube/client.hpp"

// Leads agents to the leader: the Service of the agent API has no selector, and the leader writes
// its EndpointSlice with its own address alone.

namespace compilecache::controller {

// Pure. `address` is the pod's IP of either family.
nlohmann::json endpoint_slice(const std::string& ns, const std::string& address, uint16_t port);

// Creates it or takes it over; nothing is written when it says so already.
Status write_endpoint_slice(const kube::Client& client, const std::string& ns,
                            const std::string& address, uint16_t port);

}  // namespace compilecache::controller
