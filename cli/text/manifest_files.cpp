#include "cli/text/manifest_files.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

namespace compilecache::cli {
namespace {

namespace fs = std::filesystem;

Error unreadable(const std::string& path, const std::error_code& error) {
  return {ErrorCode::kIo, "reading " + path + ": " + error.message()};
}

}  // namespace

Result<std::string> read_text(const std::string& path, std::istream& in) {
  std::stringstream text;
  if (path == "-") {
    text << in.rdbuf();
    return text.str();
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return unexpected(unreadable(path, {errno, std::generic_category()}));
  text << file.rdbuf();
  return text.str();
}

namespace {

bool is_manifest(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".yaml" || ending == ".yml" || ending == ".json";
}

// A folder's manifests in the order of their names, so that the output is the same every time.
Result<std::vector<std::string>> expand(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path == "-" || !fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      if (is_manifest(entry->path()) && entry->is_regular_file()) found.push_back(entry->path());
    }
    if (error) return unexpected(unreadable(path, error));
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace

Result<std::vector<ManifestFile>> read_files(const std::vector<std::string>& paths,
                                             std::istream& in) {
  const auto names = expand(paths);
  if (!names) return unexpected(names.error());
  std::vector<ManifestFile> files;
  for (const std::string& name : *names) {
    const auto text = read_text(name, in);
    if (!text) return unexpected(text.error());
    auto documents = read_manifests(*text, name);
    if (!documents) return unexpected(documents.error());
    files.push_back({name, std::move(*documents)});
  }
  return files;
}

}  // namespace compilecache::cli
