#include "cli/archives/scratch_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace compilecache::cli {

Result<ScratchFolder> ScratchFolder::create() {
  std::error_code failed;
  const auto parent = std::filesystem::temp_directory_path(failed);
  std::string pattern = ((failed ? "/tmp" : parent) / "compilecache.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    return fail(ErrorCode::kIo, "making a folder like " + pattern + " (TMPDIR names its place)");
  }
  return ScratchFolder(std::move(pattern));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace compilecache::cli
