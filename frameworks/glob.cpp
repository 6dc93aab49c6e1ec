#include "frameworks/glob.hpp"

namespace compilecache::frameworks {
namespace {

bool match_from(const std::vector<std::string>& pattern, size_t at,
                const std::vector<std::string_view>& path, size_t from, size_t count) {
  for (; at < pattern.size(); ++at, ++from) {
    if (pattern[at] == "**") {
      for (size_t skip = from; skip <= count; ++skip) {
        if (match_from(pattern, at + 1, path, skip, count)) return true;
      }
      return false;
    }
    if (from == count || !name_matches(pattern[at], path[from])) return false;
  }
  return from == count;
}

}  // namespace

std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t slash = path.find('/');
    if (slash != 0 && !path.empty()) parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

// Remembers the last `*` and lets it take one character more whenever the rest does not fit: no
// recursion, at worst pattern times name.
bool name_matches(std::string_view pattern, std::string_view name) {
  size_t at = 0;
  size_t from = 0;
  size_t star = std::string_view::npos;
  size_t star_from = 0;
  while (from < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_from = from;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == name[from])) {
      ++at;
      ++from;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      from = ++star_from;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

Glob::Glob(std::string_view pattern) {
  for (const std::string_view part : components(pattern)) pattern_.emplace_back(part);
  if (pattern_.empty()) pattern_.emplace_back();
}

bool Glob::matches(const std::vector<std::string_view>& path, size_t count) const {
  return match_from(pattern_, 0, path, 0, count);
}

}  // namespace compilecache::frameworks
