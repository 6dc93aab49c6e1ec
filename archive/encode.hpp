#pragma once

#include <string>

#include "archive/manifest.hpp"
#include "base/error.hpp"

// What read_manifest and read_config read.

namespace compilecache::archive {

// JSON with sorted keys; manifest.digest and .size are not looked at.
std::string encode_manifest(const Manifest& manifest);

// zstd-compressed JSON.
Result<std::string> encode_config(const Config& config);

// `compressed` is the content of a config blob. kInvalid: another format version; kCorrupt: not a
// config, or one that no writer of ours makes; kTooLarge: over a limit.
Result<Config> decode_config(const std::string& compressed, const Limits& limits);

}  // namespace compilecache::archive
