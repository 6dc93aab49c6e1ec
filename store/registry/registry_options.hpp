#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "http/proxy.hpp"
#include "store/registry/authorization.hpp"
#include "store/registry/retries.hpp"

// All that a RegistryStore needs to know.

namespace compilecache::store {

// Blobs of up to this size are in the manifest too. A request for a blob costs distribution 3 ms of
// CPU however small it is. A KiB of a blob in a manifest costs 65 us, as it parses the JSON; at 16
// KiB that is two thirds of it, and a roundtrip less. With its config and four layers a manifest
// stays below 128 KiB.
inline constexpr uint64_t kCarriedUpTo = 16U << 10;

struct RegistryOptions {
  std::string host;        // "harbor.example.com", "10.0.0.7:5000", "[fd00::7]:5000"
  std::string repository;  // of the archives: "ml/caches/team-a/llama"

  // Where the host is, if its name need not be resolvable here: an IP address. The certificate has
  // to be the host's.
  std::string address;
  std::string ca_pem;                    // trusted too
  std::string ca_file;                   // the same, read again when it has changed
  bool system_authorities = true;        // false: what these two have is trusted alone
  bool plain_http = false;               // instead of HTTPS: for a registry on this machine
  std::vector<std::string> plain_hosts;  // others ("host:port") that it may lead to by http://
  http::Proxy proxy;

  std::string docker_config_file;  // .dockerconfigjson; empty: no credentials
  TokenSource tokens;              // instead: the operator gives tokens

  std::string spool_folder = "/tmp";  // for what is to be pushed; see spool.hpp
  uint64_t spool_limit = 2ULL << 30;

  uint64_t carry_up_to = kCarriedUpTo;

  RetryLimits retries;
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds stall_timeout{15'000};   // without a byte either way
  std::chrono::milliseconds answer_timeout{30'000};  // for requests whose answers are small
  Sleeper sleep;                                     // empty: this thread sleeps
  const Clock* clock = nullptr;                      // null: the system's
};

}  // namespace compilecache::store
