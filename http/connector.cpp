#include "http/connector.hpp"

#include <algorithm>
#include <utility>

#include "base/base64.hpp"
#include "base/release.hpp"
#include "base/strings.hpp"
#include "http/exchange.hpp"

namespace compilecache::http {

namespace {

tl::unexpected<Error> not_connected(const std::string& doing, const Wire::ErrorCode& error) {
  if (error == boost::asio::error::timed_out) {
    return fail(ErrorCode::kTimeout, doing + ": no answer in time");
  }
  return fail(ErrorCode::kUnavailable, doing + ": " + error.message());
}

// The request to the proxy for a connection to `host`.
Result<std::string> connect_head(const Url& proxy, const std::string& host) {
  std::string head = "CONNECT " + host + " HTTP/1.1\r\nHost: " + host +
                     "\r\nUser-Agent: compilecache/" + release() + "\r\n";
  if (proxy.user_info.empty()) return head + "\r\n";
  const auto decoded = percent_decode(proxy.user_info);
  if (!decoded) {
    return fail(ErrorCode::kInvalid, "HTTPS_PROXY: the user and password of the proxy " +
                                         proxy.host_port() + " have a broken percent-encoding");
  }
  return head + "Proxy-Authorization: Basic " + base64_encode(*decoded) + "\r\n\r\n";
}

Result<Url> parse_proxy(const std::string& text) {
  const bool has_scheme = text.find("://") != std::string::npos;
  auto url = parse_url(has_scheme ? text : "http://" + text);
  if (!url || url->tls()) {
    return fail(ErrorCode::kInvalid,
                "HTTPS_PROXY has to be http://[USER:PASSWORD@]HOST:PORT" +
                    (url ? std::string(": proxies behind TLS are not spoken to")
                         : ": " + url.error().message));
  }
  return url;
}

}  // namespace

Status Connector::permits(const Url& url) const {
  const auto& plain = options_.plain_hosts;
  if (url.tls() || std::count(plain.begin(), plain.end(), url.host_port()) > 0) return {};
  return fail(ErrorCode::kInvalid, url.shown() + " is not https://, and " + url.host_port() +
                                       " is not among the hosts to speak to without TLS");
}

bool Connector::is_fixed(const Url& url) const {
  return !options_.fixed_host.empty() && url.host_port() == options_.fixed_host;
}

Result<std::unique_ptr<Wire>> Connector::connect(const Url& url, const std::string& where,
                                                 SteadyTime until) {
  const bool through_proxy =
      url.tls() && !is_fixed(url) && options_.proxy.applies(url.host, url.port);
  auto wire = through_proxy ? connect_through_proxy(url, until) : connect_directly(url, until);
  if (wire && url.tls()) {
    if (auto proved = secure(**wire, url, until); !proved) wire = unexpected(proved.error());
  }
  if (!wire) return unexpected(wire.error().with(where));
  return wire;
}

Result<std::unique_ptr<Wire>> Connector::connect_directly(const Url& url, SteadyTime until) {
  const auto addresses = fixed_or_resolved(url, until);
  if (!addresses) return unexpected(addresses.error());
  auto wire = std::make_unique<Wire>(options_.cutoff);
  auto connected = connect_first(*wire, *addresses, url.port, until);
  if (!connected) return unexpected(connected.error());
  return wire;
}

Result<Connector::Addresses> Connector::fixed_or_resolved(const Url& url, SteadyTime until) {
  if (!is_fixed(url)) return resolver_.resolve(url.host, until);
  if (is_address(options_.fixed_address)) return Addresses{options_.fixed_address};
  return fail(ErrorCode::kInvalid, "\"" + options_.fixed_address + "\", the address of " +
                                       url.host_port() + ", is not an IP address");
}

// Each address has its share of the time, so that one which swallows packets leaves some for the
// next.
Status Connector::connect_first(Wire& wire, const Addresses& addresses, uint16_t port,
                                SteadyTime until) {
  Status connected = fail(ErrorCode::kUnavailable, "there is no address to connect to");
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto now = std::chrono::steady_clock::now();
    const auto share = (until - now) / static_cast<long>(addresses.size() - i);
    const auto error = wire.connect(addresses[i], port, now + share);
    if (!error) return {};
    connected = not_connected(
        "connecting to " + url_host(addresses[i]) + ":" + std::to_string(port), error);
  }
  return connected;
}

Result<std::unique_ptr<Wire>> Connector::connect_through_proxy(const Url& url, SteadyTime until) {
  const auto proxy = parse_proxy(options_.proxy.url);
  if (!proxy) return unexpected(proxy.error());
  const std::string doing = "the proxy " + proxy->host_port();
  const std::string host = url.host_port();
  auto head = connect_head(*proxy, host);
  if (!head) return unexpected(head.error());
  auto wire = connect_directly(*proxy, until);
  if (!wire) return unexpected(wire.error().with(doing));
  Exchange exchange(std::move(*wire), doing, {until, options_.connect_timeout, options_.cutoff});
  if (auto done = exchange.run({.head = *head, .bodyless = true}); !done) {
    return unexpected(done.error());
  }
  if (exchange.status() / 100 == 2) return exchange.release();
  return fail(
      ErrorCode::kUnavailable,
      doing + " refused to connect to " + host + " with status " +
          std::to_string(exchange.status()) +
          (exchange.status() == 407 ? "; it wants a user and password in HTTPS_PROXY" : ""));
}

void Connector::trust(std::string ca_pem) {
  const MutexLock lock(mutex_);
  ca_pem_ = std::move(ca_pem);
  tls_ = nullptr;
}

Result<TlsContext> Connector::tls() {
  const MutexLock lock(mutex_);
  if (tls_) return tls_;
  auto made = options_.system_authorities ? client_tls_of_system(ca_pem_) : client_tls(ca_pem_);
  if (made) tls_ = *made;
  return made;
}

Status Connector::secure(Wire& wire, const Url& url, SteadyTime until) {
  auto context = tls();
  if (!context) return unexpected(context.error());
  const auto error = wire.secure(std::move(*context), url.host, until);
  if (!error) return {};
  const auto trouble = wire.certificate_trouble();
  if (trouble && error != boost::asio::error::timed_out) {
    return fail(ErrorCode::kUnauthorized,
                "the server could not prove to be " + url.host + ": " + *trouble);
  }
  return not_connected("TLS handshake with " + url.host_port(), error);
}

}  // namespace compilecache::http
