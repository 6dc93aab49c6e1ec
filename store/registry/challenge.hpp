#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.hpp"

// The demands of a server that answers 401 (RFC 9110, 11.6.1). Pure.
//
//   for (const Challenge& challenge : challenges_of(headers)) {
//     if (challenge.scheme == "bearer") realm = challenge.parameter("realm");
//   }

namespace compilecache::store {

struct Challenge {
  std::string scheme;                             // lower case: "basic", "bearer"
  std::map<std::string, std::string> parameters;  // names in lower case

  // Empty: it has none of that name.
  [[nodiscard]] std::string parameter(const std::string& name) const;
  bool operator==(const Challenge&) const = default;
};

// One header field may have several, and there may be several fields. Unreadable ones are left
// out.
std::vector<Challenge> parse_challenges(std::string_view field);
std::vector<Challenge> challenges_of(const http::Headers& headers);

}  // namespace compilecache::store
