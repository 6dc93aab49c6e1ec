#include "store/registry/reference.hpp"

#include <algorithm>
#include <string_view>

#include "http/url.hpp"

namespace compilecache::store {
namespace {

constexpr char kExample[] =
    "; write it as HOST[:PORT]/PATH, for example harbor.example.com/ml/caches";

tl::unexpected<Error> refused(const std::string& text, const std::string& why) {
  return fail(ErrorCode::kInvalid,
              "the repository \"" + text.substr(0, 300) + "\" " + why + kExample);
}

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_alphanumeric(char c) { return is_lower_or_digit(c) || is_upper(c); }

// What may stand between two letters or digits of a name: one ".", one or two "_", any number of
// "-".
bool is_separator(std::string_view text) {
  return text == "." || text == "_" || text == "__" ||
         (!text.empty() && text.find_first_not_of('-') == std::string_view::npos);
}

bool is_component(std::string_view text) {
  if (text.empty() || !is_lower_or_digit(text.front()) || !is_lower_or_digit(text.back()))
    return false;
  for (size_t i = 0; i < text.size();) {
    if (is_lower_or_digit(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (!is_lower_or_digit(text[end])) ++end;  // the last one is
    if (!is_separator(text.substr(i, end - i))) return false;
    i = end;
  }
  return true;
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_host(std::string_view text) {
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos || end < 3) return false;
    const auto address = text.substr(1, end - 1);
    const auto rest = text.substr(end + 1);
    return address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos &&
           address.find(':') != std::string_view::npos &&
           (rest.empty() || (rest.front() == ':' && is_port(rest.substr(1))));
  }
  const size_t colon = text.find(':');
  const auto name = text.substr(0, colon);
  if (name.empty() || !is_alphanumeric(name.front()) || !is_alphanumeric(name.back())) return false;
  const bool fine = std::all_of(name.begin(), name.end(),
                                [](char c) { return is_alphanumeric(c) || c == '.' || c == '-'; });
  return fine && name.find("..") == std::string_view::npos &&
         (colon == std::string_view::npos || is_port(text.substr(colon + 1)));
}

// A path alone ("ml/caches") is not taken for one on Docker Hub.
bool names_a_registry(std::string_view host) {
  return host == "localhost" || host.find_first_of(".:") != std::string_view::npos;
}

std::string without_port(const std::string& host) {
  if (!host.empty() && host.front() == '[') return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

Status check_repository(const std::string& repository) {
  if (repository.empty()) return refused(repository, "has no path");
  if (repository.find('@') != std::string::npos)
    return refused(repository, "has a digest, which archives get themselves");
  if (repository.find(':') != std::string::npos)
    return refused(repository, "has a tag, which archives get themselves");
  if (std::any_of(repository.begin(), repository.end(), is_upper))
    return refused(repository, "has upper-case letters, which registries refuse");
  if (repository.size() > kLongestRepository) {
    return refused(repository, "has " + std::to_string(repository.size()) +
                                   " characters, and registries take 255 (the names of namespace "
                                   "and CompileCache count)");
  }
  for (size_t begin = 0; begin <= repository.size();) {
    const size_t end = std::min(repository.find('/', begin), repository.size());
    const std::string part = repository.substr(begin, end - begin);
    if (part.empty()) return refused(repository, "has an empty part");
    if (!is_component(part)) {
      return refused(repository, "has the part \"" + part +
                                     "\": parts are lower-case letters and digits, with single "
                                     "dots, underscores or hyphens between them");
    }
    begin = end + 1;
  }
  return {};
}

Result<Reference> parse_reference(const std::string& text) {
  if (text.find("://") != std::string::npos)
    return refused(text, "begins with a scheme; registries are spoken to by HTTPS");
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return refused(text, "has no path after the host");
  Reference reference{text.substr(0, slash), text.substr(slash + 1)};
  if (!is_host(reference.host) || !names_a_registry(reference.host))
    return refused(text, "does not begin with a registry's host");
  if (auto good = check_repository(reference.repository); !good) return unexpected(good.error());
  return reference;
}

std::string api_host(const std::string& host) {
  return host == "docker.io" || host == "index.docker.io" ? "registry-1.docker.io" : host;
}

bool is_loopback(const std::string& host) {
  const std::string name = without_port(host);
  if (name == "localhost" || name == "::1") return true;
  // "127.example.com" is a name like any other.
  return http::is_address(name) && name.rfind("127.", 0) == 0;
}

}  // namespace compilecache::store
