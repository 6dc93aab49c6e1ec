#include "http/url.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "base/printable.hpp"
#include "base/strings.hpp"

namespace compilecache::http {

namespace {

constexpr size_t kLongestUrl = 16U << 10;
constexpr size_t kLongestHost = 255;

char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return small_letter(c) >= 'a' && small_letter(c) <= 'z'; }

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(), small_letter);
  return small;
}

// Neither a password nor a query is shown.
tl::unexpected<Error> bad_url(std::string_view text, const std::string& why) {
  const std::string_view shown = first_bytes(text.substr(0, text.find_first_of("?#")), 300);
  const bool secret = text.find('@') != std::string_view::npos;
  return fail(ErrorCode::kInvalid,
              (secret ? "a URL with user and password" : "the URL \"" + printable(shown) + "\"") +
                  " cannot be used: " + why);
}

// An IPv6 address in its usual form.
std::optional<std::string> usual_ipv6(const std::string& text) {
  in6_addr address{};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (inet_ntop(AF_INET6, &address, buffer.data(), buffer.size()) == nullptr) return std::nullopt;
  return std::string(buffer.data());
}

bool is_ipv4(const std::string& text) {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

// Resolvers take "127.1" and "0x7f000001" for addresses, other programs for names.
bool ends_like_an_address(const std::string& host) {
  std::string_view last(host);
  if (last.ends_with('.')) last.remove_suffix(1);
  last.remove_prefix(last.rfind('.') + 1);
  const bool hexadecimal = last.starts_with("0x");
  return hexadecimal || std::all_of(last.begin(), last.end(), is_digit);
}

bool is_name(const std::string& host) {
  if (host.empty() || host.size() > kLongestHost || host.front() == '.') return false;
  if (host.find("..") != std::string::npos || ends_like_an_address(host)) return false;
  return std::all_of(host.begin(), host.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
  });
}

std::optional<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

uint16_t implied_port(const std::string& scheme) { return scheme == "https" ? 443 : 80; }

// Takes "user:password@host:port" apart; says what is wrong with it, or nothing.
std::string take_authority(std::string_view text, Url& url) {
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    url.user_info = text.substr(0, at);
    text.remove_prefix(at + 1);
  }
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return "\"[\" without \"]\"";
    const auto address = usual_ipv6(std::string(text.substr(1, end - 1)));
    if (!address) return "what is in brackets is not an IPv6 address";
    url.host = *address;
    port = text.substr(end + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    url.host = in_small_letters(text.substr(0, colon));
    if (!is_ipv4(url.host) && !is_name(url.host)) return "it has no usable host";
    port = text.substr(colon);
  }
  url.port = implied_port(url.scheme);
  if (port.empty()) return "";
  const auto number = port.front() == ':' ? parse_port(port.substr(1)) : std::nullopt;
  if (!number) return "the port is not a number from 1 to 65535";
  url.port = *number;
  return "";
}

// The length of "https" in "https://...", where the text begins with a scheme.
std::optional<size_t> scheme_length(std::string_view text) {
  if (text.empty() || !is_letter(text.front())) return std::nullopt;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == ':') return i;
    const char c = text[i];
    if (!is_letter(c) && !is_digit(c) && c != '+' && c != '-' && c != '.') return std::nullopt;
  }
  return std::nullopt;
}

// RFC 3986, 5.2.4: "/a/./b/../c" is "/a/c". Nothing leads above "/".
std::string without_dots(std::string_view path) {
  std::vector<std::string> kept;
  const auto parts = split(path.substr(1), '/');
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    if (parts[i] == "..") {
      if (!kept.empty()) kept.pop_back();
    } else if (parts[i] != ".") {
      kept.push_back(parts[i]);
      continue;
    }
    if (last) kept.emplace_back();  // "a/." is the folder "a/"
  }
  return "/" + join(kept, "/");
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

// The path and query that a relative reference leads to.
std::string relative_target(const Url& base, std::string_view reference) {
  const std::string_view base_path = path_of(base.target);
  if (reference.empty()) return base.target;
  if (reference.front() == '?') return std::string(base_path).append(reference);
  const std::string_view path = path_of(reference);
  const std::string_view query = reference.substr(path.size());
  if (path.front() == '/') return without_dots(path).append(query);
  const std::string_view folder = base_path.substr(0, base_path.rfind('/') + 1);
  return without_dots(std::string(folder).append(path)).append(query);
}

}  // namespace

std::string Url::host_port() const { return url_host(host) + ":" + std::to_string(port); }

std::string Url::authority() const {
  return port == implied_port(scheme) ? url_host(host) : host_port();
}

std::string Url::text() const { return scheme + "://" + authority() + target; }

std::string Url::shown() const {
  return scheme + "://" + authority() + std::string(path_of(target));
}

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kLongestUrl) return bad_url(text, "it is too long");
  const auto visible = [](char c) { return c > ' ' && c <= '~' && c != '\\' && c != '"'; };
  if (!std::all_of(text.begin(), text.end(), visible)) {
    return bad_url(text, "it has characters that have to be percent-encoded");
  }
  const auto scheme = scheme_length(text);
  Url url;
  url.scheme = scheme ? in_small_letters(text.substr(0, *scheme)) : "";
  if ((url.scheme != "http" && url.scheme != "https") || !text.substr(*scheme).starts_with("://")) {
    return bad_url(text, "it has to begin with https:// (or http://)");
  }
  std::string_view rest = text.substr(*scheme + 3);
  rest = rest.substr(0, rest.find('#'));
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  const std::string trouble = take_authority(rest.substr(0, end), url);
  if (!trouble.empty()) return bad_url(text, trouble);
  rest.remove_prefix(end);
  url.target = (rest.starts_with('/') ? "" : "/") + std::string(rest);
  return url;
}

Result<Url> follow(const Url& base, std::string_view location) {
  if (scheme_length(location)) return parse_url(location);
  if (location.starts_with("//")) return parse_url(base.scheme + ":" + std::string(location));
  Url origin = base;
  origin.target.clear();
  origin.user_info.clear();
  const std::string_view reference = location.substr(0, location.find('#'));
  // Read once more, so that it holds to the same rules as any other.
  return parse_url(origin.text() + relative_target(base, reference));
}

bool is_address(const std::string& host) { return is_ipv4(host) || usual_ipv6(host).has_value(); }

}  // namespace compilecache::http
