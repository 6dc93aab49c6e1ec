#include "cli/archives/scratch_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace compilecache::cli {
namespace {

void remove(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace

Result<ScratchFolder> ScratchFolder::create() {
  std::error_code failed;
  const auto parent = std::filesystem::temp_directory_path(failed);
  return create_in(failed ? "/tmp" : parent.string(), " (TMPDIR names its place)");
}

Result<ScratchFolder> ScratchFolder::create_beside(const std::string& file) {
  const auto parent = std::filesystem::path(file).parent_path();
  return create_in(parent.empty() ? "." : parent.string(), "");
}

Result<ScratchFolder> ScratchFolder::create_in(const std::string& parent, const std::string& hint) {
  std::string pattern = (std::filesystem::path(parent) / "compilecache.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    const std::error_code why(errno, std::generic_category());
    return fail(ErrorCode::kIo, "making a folder like " + pattern + hint + ": " + why.message());
  }
  return ScratchFolder(std::move(pattern));
}

ScratchFolder::ScratchFolder(std::string path)
    : path_(std::move(path)), undo_(std::make_unique<Undo>([folder = path_] { remove(folder); })) {}

ScratchFolder::~ScratchFolder() {
  if (!path_.empty()) remove(path_);
}

}  // namespace compilecache::cli
