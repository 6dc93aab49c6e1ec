#pragma once

#include <string>
#include <vector>

// Something known to make a cache useless, or an application fail beside one, and by what it is
// recognised in a pod. Data, from `config/settings.yaml`; webhook/traps.hpp looks for them.
//
//   Trap{.name = "switched-off", .frameworks = {"torch"},
//        .variables = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES=1"},
//        .warning = "{variables}: nothing is cached"}
//
// In patterns `*` stands for any characters and `?` for one, '/' among them.

namespace compilecache::frameworks {

struct Trap {
  std::string name;

  // It matters to pods with one of these frameworks, and none of those.
  std::vector<std::string> frameworks, unless_frameworks;

  // It is met by a chosen container that has any of these:
  std::vector<std::string> images;            // an image of such a name
  std::vector<std::string> words;             // such a word in its command or arguments
  std::vector<std::string> variables;         // a variable of such a name, or such a "NAME=value"
  std::vector<std::string> variables_of_pod;  // one whose value is of this one pod or node
  bool numbered_user = false;                 // a user given by number, other than root

  // But not by one that sets any of these.
  std::vector<std::string> unless_variables;

  // For whoever creates the pod; "{variables}" and "{user}" stand for what was met.
  std::string warning;

  bool operator==(const Trap&) const = default;
};

// An API server passes on 256 bytes of a warning, and the container's name stands before it.
inline constexpr size_t kLongestTrapWarning = 190;

}  // namespace compilecache::frameworks
