#include "operator/registry_locator.hpp"

#include <chrono>
#include <utility>

#include "base/log.hpp"
#include "operator/cluster/own_registry.hpp"

namespace compilecache::controller {
namespace {

constexpr std::chrono::seconds kLookAgain{30};

}  // namespace

RegistryLocator::RegistryLocator(kube::Client client, std::string ns, Found found)
    : client_(std::move(client)), ns_(std::move(ns)), found_(std::move(found)) {}

RegistryLocator::~RegistryLocator() { stop(); }

Status RegistryLocator::look() const {
  const auto registry = find_own_registry(client_, ns_);
  if (!registry) return unexpected(registry.error());
  found_(*registry);
  return {};
}

void RegistryLocator::start() {
  thread_ = std::thread([this] {
    while (!ending_.wait_for(kLookAgain)) {
      if (const Status looked = look(); !looked) {
        log_warn("the installation's own registry is taken to be where it was",
                 {{"error", looked.error().message}});
      }
    }
  });
}

void RegistryLocator::stop() {
  ending_.cancel();
  if (thread_.joinable()) thread_.join();
}

}  // namespace compilecache::controller
