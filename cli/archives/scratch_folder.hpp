#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "cli/cluster/undo.hpp"

namespace compilecache::cli {

// A folder of this machine's, below $TMPDIR or /tmp, gone with the object, or when a signal ends
// the program (undo.hpp).
class ScratchFolder {
 public:
  static Result<ScratchFolder> create();
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), undo_(std::move(other.undo_)) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path);
  std::string path_;
  std::unique_ptr<Undo> undo_;
};

}  // namespace compilecache::cli
