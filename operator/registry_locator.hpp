#pragma once

#include <functional>
#include <string>
#include <thread>

#include "api/store_ref.hpp"
#include "base/error.hpp"
#include "kube/cancellation.hpp"
#include "kube/client.hpp"

// Keeps an eye on the installation's own registry, which may be installed after the operator, be
// removed, or get another address.
//
//   RegistryLocator locator(client, ns, [&](const api::OwnRegistry& found) { ... });
//   if (Status looked = locator.look(); !looked) ...    // once, at the start
//   locator.start();                                    // from then on regularly, in a thread
//
// `found` is called with what is there whenever anybody looked. Thread-safe.

namespace compilecache::controller {

class RegistryLocator {
 public:
  using Found = std::function<void(const api::OwnRegistry&)>;

  RegistryLocator(kube::Client client, std::string ns, Found found);
  ~RegistryLocator();
  RegistryLocator(const RegistryLocator&) = delete;
  RegistryLocator& operator=(const RegistryLocator&) = delete;

  // Where that fails, what was found before stays.
  Status look() const;
  void start();
  void stop();

 private:
  const kube::Client client_;
  const std::string ns_;
  const Found found_;
  kube::Cancellation ending_;
  std::thread thread_;
};

}  // namespace compilecache::controller
