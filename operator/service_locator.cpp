#include "operator/service_locator.hpp"

#include <chrono>
#include <utility>

#include "base/log.hpp"
#include "operator/cluster/own_registry.hpp"

namespace compilecache::controller {
namespace {

// Until the next look pods get the old address.
constexpr std::chrono::seconds kLookAgain{5};

}  // namespace

ServiceLocator::ServiceLocator(kube::Client client, std::string ns, Handlers handlers)
    : client_(std::move(client)), ns_(std::move(ns)), handlers_(std::move(handlers)) {}

ServiceLocator::~ServiceLocator() { stop(); }

Status ServiceLocator::look() const {
  Status looked;
  const auto tell = [&](const auto& handler, auto&& find) {
    if (!handler) return;
    if (const auto found = find(client_, ns_)) {
      handler(*found);
    } else if (looked) {
      looked = unexpected(found.error());
    }
  };
  tell(handlers_.registry, find_own_registry);
  tell(handlers_.agents, find_agent_service);
  tell(handlers_.loads, find_load_address);
  return looked;
}

void ServiceLocator::start() {
  thread_ = std::thread([this] {
    while (!ending_.wait_for(kLookAgain)) {
      if (const Status looked = look(); !looked) {
        log_warn("the installation's Services are taken to be as they were",
                 {{"error", looked.error().message}});
      }
    }
  });
}

void ServiceLocator::stop() {
  ending_.cancel();
  if (thread_.joinable()) thread_.join();
}

}  // namespace compilecache::controller
