#include "cli/cluster/plain_error.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace compilecache::cli {
namespace {

// The client's words before the fault: "getting compilecaches ml/llama".
bool is_request(std::string_view text) {
  constexpr std::array<std::string_view, 11> kVerbs{
      "getting ",  "listing ",  "creating ", "updating ", "patching ", "applying ",
      "deleting ", "watching ", "GET /",     "POST /",    "DELETE /"};
  return std::any_of(kVerbs.begin(), kVerbs.end(),
                     [&](std::string_view verb) { return text.starts_with(verb); });
}

// Of " (404 NotFound)", the end; npos: it is something else.
size_t end_of_status(const std::string& text, size_t open) {
  constexpr size_t kDigits = 3;
  const size_t first = open + 2;
  for (size_t i = first; i < first + kDigits; ++i) {
    if (i >= text.size() || std::isdigit(static_cast<unsigned char>(text[i])) == 0)
      return std::string::npos;
  }
  const size_t close = text.find_first_not_of(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ", first + kDigits);
  return close != std::string::npos && text[close] == ')' ? close + 1 : std::string::npos;
}

}  // namespace

Error plain_error(const Error& error) {
  Error plain = error;
  std::string& text = plain.message;
  const size_t colon = text.find(": ");
  if (!is_request(text) || colon == std::string::npos) return plain;
  text.erase(0, colon + 2);
  for (size_t open = text.find(" ("); open != std::string::npos; open = text.find(" (", open + 1)) {
    if (const size_t end = end_of_status(text, open); end != std::string::npos) {
      text.erase(open, end - open);
      break;
    }
  }
  return plain;
}

Error not_read(const Error& error, const std::string& kind, const std::string& ns,
               const std::string& name) {
  Error plain = plain_error(error);
  if (error.code != ErrorCode::kNotFound) return plain;
  if (plain.message.find("could not find the requested resource") != std::string::npos) {
    plain.message = "the server has no " + kind + "s: is the operator installed in this cluster?";
  } else {
    plain.message =
        kind + " \"" + name + "\" not found" + (ns.empty() ? "" : " in namespace \"" + ns + "\"");
  }
  return plain;
}

}  // namespace compilecache::cli
