#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/support/connections.hpp"

// What stands before a user's registry that keeps its blobs elsewhere, as those on buckets do: GETs
// of blobs are sent with 307 to another host, all else goes to the registry. Each connection is for
// one request.
//
//   RedirectingFront front(registry.port(), registry.data());
//   RegistryStore store({.host = front.host(), .plain_http = true,
//                        .plain_hosts = {front.blob_host()}, ...});

namespace compilecache::store::test {

class RedirectingFront {
 public:
  // `data`: the folder of a registry's files, from which the other host takes blobs.
  RedirectingFront(uint16_t registry, std::string data);

  [[nodiscard]] std::string host() const { return front_.host(); }
  [[nodiscard]] std::string blob_host() const { return blobs_.host(); }
  // The blob host has no answer from now on, or has one again.
  void lose_blob_host(bool lost) { lost_ = lost; }

  // GETs of blobs that came with credentials, and were redirected.
  [[nodiscard]] int redirected() const { return redirected_; }
  // Those that the blob host answered with bytes, and what it refused since there were credentials.
  [[nodiscard]] int served() const { return served_; }
  [[nodiscard]] int credentials_shown() const { return credentials_shown_; }

 private:
  void pass_or_redirect(testing::Connection& client);
  void give_blob(testing::Connection& client);

  const uint16_t registry_;
  const std::string data_;
  std::atomic<bool> lost_ = false;
  std::atomic<int> redirected_ = 0, served_ = 0, credentials_shown_ = 0;
  testing::ConnectionServer blobs_, front_;
};

}  // namespace compilecache::store::test
