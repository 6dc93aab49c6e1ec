#include "api/injected_place.hpp"

#include <charconv>

#include "api/reasons.hpp"

namespace compilecache::api {

std::string tell_injected(size_t first) {
  std::string text(text_of(InjectionReason::kInjected).sentence);
  if (first > 0)
    text += "; the first of them is spec.initContainers[" + std::to_string(first) + "]";
  return text;
}

std::set<size_t> init_containers_named_in(std::string_view text) {
  constexpr std::string_view kList = "initContainers";
  std::set<size_t> found;
  for (size_t at = text.find(kList); at != text.npos; at = text.find(kList, at)) {
    at += kList.size();
    const std::string_view rest = text.substr(at);
    if (rest.empty() || (rest[0] != '[' && rest[0] != '/')) continue;
    const char after = rest[0] == '[' ? ']' : '/';
    size_t index = 0;
    const char* const end = rest.data() + rest.size();
    const auto read = std::from_chars(rest.data() + 1, end, index);
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == after) found.insert(index);
  }
  return found;
}

}  // namespace compilecache::api
