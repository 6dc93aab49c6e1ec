#pragma once

#include <string>
#include <utility>

#include "base/error.hpp"

namespace compilecache::cli {

// A folder of this machine's, below $TMPDIR or /tmp, gone with the object.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create();
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace compilecache::cli
