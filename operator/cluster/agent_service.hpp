#pragma once

#include <string>

#include "base/error.hpp"
#include "kube/client.hpp"

// The Service of the agent API, by whose ClusterIP pods and Jobs reach the operator: some of them
// have no cluster DNS. It gets another address when it is deleted and created again.
//
//   AgentService known;
//   const auto found = find_agent_service(client, "compilecache-system");
//   if (found) known = known.then(*found);
//
// find_agent_service() blocks on the API server. Thread-safe.

namespace compilecache::controller {

struct AgentService {
  std::string address;  // the last one, while there is trouble
  std::string trouble;  // why nobody can reach the operator by it; empty: nothing is known to be

  bool operator==(const AgentService&) const = default;

  // The knowledge after `found`: an address stays known while the Service has none.
  [[nodiscard]] AgentService then(AgentService found) const {
    if (found.address.empty()) found.address = address;
    return found;
  }
};

// A Service that is missing or has no ClusterIP is no error but trouble, without an address.
Result<AgentService> find_agent_service(const kube::Client& client, const std::string& ns);

// The ClusterIP of the Service by which every replica answers loads. "": there is none, or we may
// not read it, as after an update of the image alone; then agents ask the leader only.
Result<std::string> find_load_address(const kube::Client& client, const std::string& ns);

}  // namespace compilecache::controller
