#include "http/proxy.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/strings.hpp"

namespace compilecache::http {

namespace {

// An address as 16 bytes; an IPv4 one as IPv6 maps it ("::ffff:10.0.0.1").
using AddressBytes = std::array<uint8_t, 16>;
constexpr int kMappedBits = 96;

std::optional<AddressBytes> address_bytes(const std::string& text) {
  AddressBytes bytes{};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (inet_pton(AF_INET, text.c_str(), bytes.data() + 12) == 1) return bytes;
  return std::nullopt;
}

bool share_bits(const AddressBytes& a, const AddressBytes& b, int bits) {
  const auto whole = static_cast<size_t>(bits / 8);
  if (std::memcmp(a.data(), b.data(), whole) != 0) return false;
  const int rest = bits % 8;
  return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

std::optional<int> number_up_to(std::string_view text, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number < 0 || number > most) return std::nullopt;
  return number;
}

bool in_block(const AddressBytes& address, const std::string& block, size_t slash) {
  const std::string base = block.substr(0, slash);
  const auto bytes = address_bytes(base);
  const bool ipv6 = base.find(':') != std::string::npos;
  const auto bits = number_up_to(std::string_view(block).substr(slash + 1), ipv6 ? 128 : 32);
  return bytes && bits && share_bits(address, *bytes, *bits + (ipv6 ? 0 : kMappedBits));
}

bool is_loopback(const std::string& host, const std::optional<AddressBytes>& address) {
  if (!address) return host == "localhost" || host.ends_with(".localhost");
  return in_block(*address, "127.0.0.0/8", 9) || in_block(*address, "::1/128", 3);
}

std::string without_last_dot(std::string name) {
  if (name.ends_with('.')) name.pop_back();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : static_cast<char>(c);
  });
  return name;
}

// "example.com" is also for what is below it, ".example.com" and "*.example.com" only for that.
bool name_matches(const std::string& host, const std::string& rule) {
  const std::string name = rule.starts_with("*.") ? rule.substr(1) : rule;
  if (name.empty() || name == ".") return false;
  if (name.front() == '.') return host.ends_with(name);
  return host == name || host.ends_with("." + name);
}

// Splits "host:port", "[::1]:port" and "[::1]"; an IPv6 address without brackets has no port.
struct Rule {
  std::string host;
  std::string_view port;
};
Rule parse_rule(const std::string& text) {
  const std::string_view view(text);
  if (view.starts_with('[')) {
    const size_t end = view.find(']');
    if (end == std::string_view::npos) return {text, {}};
    const auto rest = view.substr(end + 1);
    return {text.substr(1, end - 1), rest.starts_with(':') ? rest.substr(1) : std::string_view()};
  }
  const size_t colon = view.rfind(':');
  const bool has_port = colon != std::string_view::npos && view.find(':') == colon;
  return has_port ? Rule{text.substr(0, colon), view.substr(colon + 1)} : Rule{text, {}};
}

// Whether one entry of NO_PROXY names the host.
bool entry_names(const std::string& entry, const std::string& host,
                 const std::optional<AddressBytes>& address, int port) {
  const std::string text = without_last_dot(std::string(trim(entry)));
  if (text == "*") return true;
  if (const size_t slash = text.find('/'); slash != std::string::npos) {
    return address && in_block(*address, text, slash);
  }
  const Rule rule = parse_rule(text);
  if (!rule.port.empty() && number_up_to(rule.port, 65535) != port) return false;
  if (const auto named = address_bytes(rule.host)) return address && *address == *named;
  return !address && name_matches(host, without_last_dot(rule.host));
}

std::string environment_of(const char* name, const char* small) {
  for (const char* candidate : {name, small}) {
    const char* value = std::getenv(candidate);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

}  // namespace

bool Proxy::applies(const std::string& host, int port) const {
  if (url.empty()) return false;
  const std::string name = without_last_dot(host);
  const auto address = address_bytes(name);
  if (is_loopback(name, address)) return false;
  return std::none_of(no_proxy.begin(), no_proxy.end(), [&](const std::string& entry) {
    return entry_names(entry, name, address, port);
  });
}

Proxy proxy_of_environment() {
  Proxy proxy{environment_of("HTTPS_PROXY", "https_proxy"), {}};
  std::string entries = environment_of("NO_PROXY", "no_proxy");
  std::replace(entries.begin(), entries.end(), ' ', ',');
  for (auto& entry : split(entries, ',')) {
    if (!entry.empty()) proxy.no_proxy.push_back(std::move(entry));
  }
  return proxy;
}

}  // namespace compilecache::http
