#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

// What the fuzzers feed. Each target reads bytes as archive/ would read them from a volume, and
// aborts when what was accepted is not what it should be. A sanitizer sees the rest.

namespace compilecache::fuzz {

using Target = void (*)(std::span<const uint8_t> input);

// By name: "config", "index", "layer", "manifest", "seek_table", "tar".
const std::map<std::string, Target>& targets();

}  // namespace compilecache::fuzz
