#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <utility>

// The fuzzers' targets. Each target reads bytes as the program would read them from a volume or
// from the network, and aborts when what was accepted is not what it should be. A sanitizer sees
// the rest.
//
// A file of targets makes them known by a Registration:
//
//   void manifest(Bytes input) { ... require(same, "a manifest stays the same"); }
//   const Registration kRegistration{{"manifest", manifest}};
//
// CMakeLists.txt has the files and names; corpus/NAME/ has a target's inputs.

namespace compilecache::fuzz {

using Bytes = std::span<const uint8_t>;
using Target = void (*)(Bytes input);

// Everything that was registered, by name.
const std::map<std::string, Target>& targets();

struct Registration {
  Registration(std::initializer_list<std::pair<const std::string, Target>> named);
};

// Aborts, saying what does not hold.
void require(bool holds, const char* what);

std::string text(Bytes bytes);

}  // namespace compilecache::fuzz
