#include "store/registry/mounted_file.hpp"

#include <filesystem>

#include "archive/fs.hpp"

namespace compilecache::store {
namespace {

constexpr uint64_t kMostBytes = 1U << 20;  // what a Secret holds at most

// Kubelets keep what is theirs below names that begin with two dots.
bool has_files(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind("..", 0) != 0) return true;
  }
  return false;
}

}  // namespace

Result<std::string> read_mounted(const MountedFile& file) {
  auto text = archive::read_small_file(file.path, kMostBytes);
  if (text) return text;
  Error error = text.error().with(std::string("reading ") + file.what);
  const bool missing = error.code == ErrorCode::kNotFound &&
                       !has_files(std::filesystem::path(file.path).parent_path());
  error.reason = missing ? file.reason_missing : file.reason_without;
  error.code = ErrorCode::kInvalid;
  return unexpected(error);
}

}  // namespace compilecache::store
