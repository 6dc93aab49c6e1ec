#include "http/message.hpp"

#include <algorithm>

namespace compilecache::http {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool equal_without_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

}  // namespace

std::optional<std::string_view> find_header(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (equal_without_case(key, name)) return value;
  }
  return std::nullopt;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return decoded;
}

std::optional<std::string> Request::query_parameter(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    const auto key = percent_decode(pair.substr(0, equals), true);
    if (!key || *key != name) continue;
    return equals == std::string_view::npos ? std::string()
                                            : percent_decode(pair.substr(equals + 1), true);
  }
  return std::nullopt;
}

std::optional<std::string_view> Request::bearer_token() const {
  const auto value = header("Authorization");
  constexpr std::string_view kScheme = "Bearer ";
  if (!value || value->size() <= kScheme.size()) return std::nullopt;
  if (!equal_without_case(value->substr(0, kScheme.size()), kScheme)) return std::nullopt;
  return value->substr(kScheme.size());
}

Response text_response(int status, std::string line) {
  line += '\n';
  return Response{
      .status = status, .body = std::move(line), .content_type = "text/plain; charset=utf-8"};
}

}  // namespace compilecache::http
