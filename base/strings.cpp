#include "base/strings.hpp"

#include <cctype>

#include "base/sha256.hpp"

namespace compilecache {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  size_t start = 0;
  while (true) {
    const size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty() || &part != &parts.front()) text += separator;
    text += part;
  }
  return text;
}

std::string_view first_bytes(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return text.substr(0, most);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

std::string url_host(std::string_view host) {
  const bool ipv6 = host.find(':') != std::string_view::npos;
  return ipv6 ? "[" + std::string(host) + "]" : std::string(host);
}

std::string to_label_value(std::string_view text) {
  constexpr size_t kLongest = 63;
  constexpr size_t kHashDigits = 8;
  const auto alphanumeric = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::string value;
  for (const char c : text) value += alphanumeric(c) || c == '.' || c == '_' || c == '-' ? c : '-';
  if (value.size() > kLongest) {
    value =
        value.substr(0, kLongest - kHashDigits - 1) + "-" + sha256_hex(text).substr(0, kHashDigits);
  }
  while (!value.empty() && !alphanumeric(value.front())) value.erase(value.begin());
  while (!value.empty() && !alphanumeric(value.back())) value.pop_back();
  return value;
}

}  // namespace compilecache
