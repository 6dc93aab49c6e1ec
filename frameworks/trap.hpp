#pragma once

#include <string>
#include <vector>

// Something known to make a cache useless or an application fail beside one, and how to recognise
// it in a pod. Traps are data, from `config/settings.yaml`; webhook/traps.hpp looks for them.
//
//   const Trap trap{.name = "switched-off", .frameworks = {"torch"},
//                   .variables = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES=1"},
//                   .warning = "{variables}: nothing is cached"};
//
// In patterns `*` stands for any characters and `?` for one, '/' included.

namespace compilecache::frameworks {

struct Trap {
  std::string name;

  // It concerns pods with one of the first and none of the second.
  std::vector<std::string> frameworks, unless_frameworks;

  // A chosen container is caught when it has any of these:
  std::vector<std::string> images;            // an image of such a name
  std::vector<std::string> words;             // such a word in its command or arguments
  std::vector<std::string> variables;         // a variable of such a name, or such a "NAME=value"
  std::vector<std::string> variables_of_pod;  // one whose value is of this one pod or node
  bool numbered_user = false;                 // a user given by number, other than root

  // A container that sets any of these is not caught.
  std::vector<std::string> unless_variables;

  // The warning for the pod's creator; "{variables}" and "{user}" stand for what was found.
  std::string warning;

  bool operator==(const Trap&) const = default;
};

// An API server passes on 256 bytes of a warning, and the container's name stands before it.
inline constexpr size_t kLongestTrapWarning = 190;

}  // namespace compilecache::frameworks
