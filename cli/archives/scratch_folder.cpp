#include "cli/archives/scratch_folder.hpp"

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
  std::string pattern = ((failed ? "/tmp" : parent) / "compilecache.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    return fail(ErrorCode::kIo, "making a folder like " + pattern + " (TMPDIR names its place)");
  }
  return ScratchFolder(std::move(pattern));
}

ScratchFolder::ScratchFolder(std::string path)
    : path_(std::move(path)), undo_(std::make_unique<Undo>([folder = path_] { remove(folder); })) {}

ScratchFolder::~ScratchFolder() {
  if (!path_.empty()) remove(path_);
}

}  // namespace compilecache::cli
