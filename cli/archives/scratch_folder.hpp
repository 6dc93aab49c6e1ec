#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "cli/cluster/undo.hpp"

namespace compilecache::cli {

// A folder of this machine's, gone with the object, or when a signal ends the program (undo.hpp).
class ScratchFolder {
 public:
  // Below $TMPDIR or /tmp.
  static Result<ScratchFolder> create();
  // Beside that file, so that what is in it can be renamed to it.
  static Result<ScratchFolder> create_beside(const std::string& file);
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), undo_(std::move(other.undo_)) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static Result<ScratchFolder> create_in(const std::string& parent, const std::string& hint);
  explicit ScratchFolder(std::string path);
  std::string path_;
  std::unique_ptr<Undo> undo_;
};

}  // namespace compilecache::cli
