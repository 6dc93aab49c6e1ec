#pragma once

#include <string>

#include "archive/manifest.hpp"
#include "base/error.hpp"

// The encoding of manifests and configs, which read_manifest and read_config read.

namespace compilecache::archive {

// Returns JSON with sorted keys; ignores manifest.digest and .size.
std::string encode_manifest(const Manifest& manifest);

// Returns zstd-compressed JSON.
Result<std::string> encode_config(const Config& config);

// `compressed` is the content of a config blob. kInvalid: another format version; kCorrupt: not a
// config, or one that our writer never makes; kTooLarge: over a limit.
Result<Config> decode_config(const std::string& compressed, const Limits& limits);

}  // namespace compilecache::archive
