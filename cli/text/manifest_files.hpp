#pragma once

#include <istream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/text/manifest_yaml.hpp"

// The files that the option -f names, read from disk.

namespace compilecache::cli {

struct ManifestFile {
  std::string name;  // for the reports
  std::vector<Manifest> documents;
};

// A file, or all of `in` for "-".
Result<std::string> read_text(const std::string& path, std::istream& in);

// Files, folders with all manifests below them in the order of their names, and "-". Errors name
// the file.
Result<std::vector<ManifestFile>> read_files(const std::vector<std::string>& paths,
                                             std::istream& in);

}  // namespace compilecache::cli
