#pragma once

#include <functional>
#include <string>
#include <thread>

#include "api/store_ref.hpp"
#include "base/error.hpp"
#include "kube/cancellation.hpp"
#include "kube/client.hpp"
#include "operator/cluster/agent_service.hpp"

// Looks for the Services of the installation every few seconds, since they may be created after
// the operator, be removed, or get another address: the own registry's and those of the agent API.
//
//   ServiceLocator locator(client, ns, {[&](const api::OwnRegistry& found) { ... },
//                                       [&](const AgentService& found) { ... }});
//   if (Status looked = locator.look(); !looked) ...    // once, at the start
//   locator.start();                                    // from then on regularly, in a thread
//
// The handlers are called with what is there at every look. A Service without a handler is not
// looked for. Thread-safe.

namespace compilecache::controller {

class ServiceLocator {
 public:
  struct Handlers {
    std::function<void(const api::OwnRegistry&)> registry;
    std::function<void(const AgentService&)> agents;
    std::function<void(const std::string& address)> loads;  // of any replica; "": there is none
  };

  ServiceLocator(kube::Client client, std::string ns, Handlers handlers);
  ~ServiceLocator();
  ServiceLocator(const ServiceLocator&) = delete;
  ServiceLocator& operator=(const ServiceLocator&) = delete;

  // Looks for all; returns the first error. What could not be read stays as it was.
  Status look() const;
  void start();
  void stop();

 private:
  const kube::Client client_;
  const std::string ns_;
  const Handlers handlers_;
  kube::Cancellation ending_;
  std::thread thread_;
};

}  // namespace compilecache::controller
