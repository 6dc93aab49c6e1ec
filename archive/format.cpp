#include "archive/format.hpp"

#include <algorithm>

#include "base/hex.hpp"
#include "base/strings.hpp"

namespace compilecache::archive {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";

// Length of the UTF-8 sequence at the start of `text`, 0 if it is invalid. Overlong forms and
// surrogates are invalid.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  const size_t length = lead < 0x80                    ? 1
                        : lead >= 0xC2 && lead <= 0xDF ? 2
                        : (lead & 0xF0) == 0xE0        ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && at(1) < 0xA0) return 0;
  if (lead == 0xED && at(1) > 0x9F) return 0;
  if (lead == 0xF0 && at(1) < 0x90) return 0;
  if (lead == 0xF4 && at(1) > 0x8F) return 0;
  return length;
}

const char* text_problem(std::string_view path) {
  while (!path.empty()) {
    const auto first = static_cast<unsigned char>(path.front());
    if (first < 0x20 || first == 0x7F) return "it has a control character";
    const size_t length = utf8_length(path);
    if (length == 0) return "it is not valid UTF-8";
    path.remove_prefix(length);
  }
  return nullptr;
}

const char* component_problem(std::string_view component) {
  if (component.empty()) return "it has an empty component";
  if (component == "." || component == "..") return "it has a component \".\" or \"..\"";
  if (component.size() > 255) return "a component is longer than 255 bytes";
  return nullptr;
}

const char* path_problem(std::string_view path) {
  if (path.empty()) return "it is empty";
  if (path.size() > kMaxPathBytes) return "it is longer than 4096 bytes";
  if (path.front() == '/') return "it is absolute";
  if (const char* problem = text_problem(path)) return problem;
  size_t depth = 0;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (const char* problem = component_problem(path.substr(start, end - start))) return problem;
    if (++depth > kMaxPathDepth) return "it is deeper than 32 levels";
    start = end + 1;
  }
  return nullptr;
}

// Replaces bytes that could harm a log or a terminal with '?'.
std::string printable(std::string_view path) {
  std::string shown(path.substr(0, 200));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) c = '?';
  }
  return shown;
}

}  // namespace

std::string to_hex(const ContentHash& hash) { return compilecache::to_hex(hash); }

Result<ContentHash> parse_content_hash(std::string_view hex) {
  if (!is_hex(hex, 64))
    return fail(ErrorCode::kInvalid, "not 64 lower-case hexadecimal digits: " + printable(hex));
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  ContentHash hash;
  for (size_t i = 0; i < hash.size(); ++i) {
    hash[i] = static_cast<uint8_t>(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
  }
  return hash;
}

bool is_digest(std::string_view text) {
  return text.starts_with(kDigestPrefix) && is_hex(text.substr(kDigestPrefix.size()), 64);
}

Status check_archive_path(std::string_view path) {
  if (const char* problem = path_problem(path)) {
    return fail(ErrorCode::kInvalid,
                "path \"" + printable(path) + "\" cannot be in an archive: " + problem);
  }
  return {};
}

uint64_t new_directories(std::string_view previous, std::string_view path) {
  const auto differ = std::mismatch(previous.begin(), previous.end(), path.begin(), path.end());
  return static_cast<uint64_t>(std::count(differ.second, path.end(), '/'));
}

}  // namespace compilecache::archive
