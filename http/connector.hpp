#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "http/resolver.hpp"
#include "http/session.hpp"
#include "http/tls.hpp"
#include "http/url.hpp"
#include "http/wire.hpp"

// Makes connections for a Session: the name's address, TCP, the proxy, TLS; internal to this
// folder.

namespace compilecache::http {

// Thread-safe.
class Connector {
 public:
  // `options` has to outlive it.
  explicit Connector(const SessionOptions& options) : options_(options), ca_pem_(options.ca_pem) {}

  // In place of the options' ca_pem, for connections from now on.
  void trust(std::string ca_pem);

  // Whether the URL may be asked at all: https, or one of the plain hosts.
  [[nodiscard]] Status permits(const Url& url) const;
  // Errors are those of Session::start(), and begin with `where`.
  Result<std::unique_ptr<Wire>> connect(const Url& url, const std::string& where, SteadyTime until);

 private:
  using Addresses = std::vector<std::string>;
  Result<Addresses> fixed_or_resolved(const Url& url, SteadyTime until);
  Status connect_first(Wire& wire, const Addresses& addresses, uint16_t port, SteadyTime until);
  Result<std::unique_ptr<Wire>> connect_directly(const Url& url, SteadyTime until);
  Result<std::unique_ptr<Wire>> connect_through_proxy(const Url& url, SteadyTime until);
  Status secure(Wire& wire, const Url& url, SteadyTime until);
  Result<TlsContext> tls();
  [[nodiscard]] bool is_fixed(const Url& url) const;

  const SessionOptions& options_;
  Resolver resolver_;
  Mutex mutex_;
  std::string ca_pem_ GUARDED_BY(mutex_);
  TlsContext tls_ GUARDED_BY(mutex_);  // made when it is first needed
};

}  // namespace compilecache::http
