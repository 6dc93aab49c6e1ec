#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "archive/manifest.hpp"

// An archive's note on files that are right only where nothing was compiled while they were made
// (frameworks::Framework::only_from_warm): those that come from a pod which found all that it
// needed. What releases before 0.3 have saved is not noted.
//
//   WarmFiles warm = warm_files(config.notes, "vllm");
//   if (!is_noted(warm, file)) ...    // from a cold pod: not loaded
//
// Pure.

namespace compilecache::agent {

// Paths in the archive to when the file was written, in nanoseconds since 1970.
using WarmFiles = std::map<std::string, int64_t>;

WarmFiles warm_files(const std::map<std::string, std::string>& notes, const std::string& framework);
// Whether the file is the one that was noted, and no later one of the same name.
bool is_noted(const WarmFiles& warm, const archive::FileEntry& file);
// The note, by its name.
std::map<std::string, std::string> warm_note(const std::string& framework, const WarmFiles& warm);

}  // namespace compilecache::agent
