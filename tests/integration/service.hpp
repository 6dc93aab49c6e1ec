#pragma once

#include <cstdint>
#include <memory>
#include <set>

// Stands in for a Service and kube-proxy, for processes on this machine: every new connection goes
// to one of the ready backends, in turns; connections that are open stay where they are.
//
//   LoopbackService service;            // listens on 127.0.0.1
//   service.set_backends({9443, 9543});
//   make_external_name("compilecache-webhook", service.port());

namespace compilecache::testing {

class LoopbackService {
 public:
  LoopbackService();
  ~LoopbackService();
  LoopbackService(const LoopbackService&) = delete;
  LoopbackService& operator=(const LoopbackService&) = delete;

  [[nodiscard]] uint16_t port() const;
  // Ports on 127.0.0.1. Thread-safe.
  void set_backends(std::set<uint16_t> ports);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::testing
