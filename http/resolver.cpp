#include "http/resolver.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <thread>

#include "http/url.hpp"

namespace compilecache::http {

namespace {

std::string address_text(const addrinfo& info) {
  std::array<char, NI_MAXHOST> text{};
  const int error = getnameinfo(info.ai_addr, info.ai_addrlen, text.data(), text.size(), nullptr, 0,
                                NI_NUMERICHOST);
  return error == 0 ? std::string(text.data()) : std::string();
}

Resolver::Addresses ask_the_system(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return fail(ErrorCode::kUnavailable,
                "the address of \"" + host + "\" is not known: " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    std::string address = address_text(*info);
    if (address.empty() || std::count(addresses.begin(), addresses.end(), address) > 0) continue;
    addresses.push_back(std::move(address));
  }
  if (addresses.empty()) {
    return fail(ErrorCode::kUnavailable, "\"" + host + "\" has no address that can be used");
  }
  return addresses;
}

}  // namespace

Resolver::Resolver() : Resolver(ask_the_system) {}
Resolver::Resolver(Lookup lookup) : lookup_(std::move(lookup)) {}

std::shared_ptr<Resolver::Pending> Resolver::join_or_start(const std::string& host) {
  const MutexLock lock(mutex_);
  std::erase_if(pending_, [](const auto& named) {
    const MutexLock its_lock(named.second->mutex);
    return named.second->done;
  });
  const auto pending = pending_.find(host);
  if (pending != pending_.end()) return pending->second;
  auto started = std::make_shared<Pending>();
  std::thread([started, host, lookup = lookup_] {
    auto addresses = lookup(host);
    const MutexLock its_lock(started->mutex);
    started->addresses = std::move(addresses);
    started->done = true;
    started->changed.notify_all();
  }).detach();
  pending_.emplace(host, started);
  return started;
}

Resolver::Addresses Resolver::resolve(const std::string& host,
                                      std::chrono::steady_clock::time_point until) {
  if (is_address(host)) return std::vector<std::string>{host};
  std::shared_ptr<Pending> pending;
  try {
    pending = join_or_start(host);
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kUnavailable,
                "resolving \"" + host + "\": no thread could be started: " + error.what());
  }
  const MutexLock lock(pending->mutex);
  const bool done = pending->changed.wait_until(
      pending->mutex, until, [&]() REQUIRES(pending->mutex) { return pending->done; });
  if (!done) {
    return fail(ErrorCode::kTimeout, "no name server resolved \"" + host + "\" in time");
  }
  return pending->addresses;
}

}  // namespace compilecache::http
