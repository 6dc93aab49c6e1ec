#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "archive/manifest.hpp"
#include "archive/write/source.hpp"
#include "archive/write/source_file.hpp"
#include "base/error.hpp"

namespace compilecache::archive {

// The files of a save, as they were when it began, and which of them it leaves out. A file that is
// left out stays in the list until drop_left_out(), so indices are valid until then. Not
// thread-safe.
class SourceList {
 public:
  SourceList() = default;
  // Looks at each file without opening it, and leaves out those that cannot be packed. The list is
  // sorted by path; the first of several files with the same path counts.
  explicit SourceList(std::vector<SourceFile> files);

  [[nodiscard]] const std::vector<Source>& all() const { return sources_; }
  // All files that were left out since the beginning, in that order.
  [[nodiscard]] const std::vector<LeftOut>& left_out() const { return left_out_; }
  [[nodiscard]] bool is_left_out(size_t index) const { return dropped_[index]; }

  // Hashes as few sources as needed to find those that are equal to others or to the parent's
  // files, and drops those that cannot be read. `chunk` is memory to read into; `go_on` is called
  // before each file.
  Status find_equal_files(const Config& parent, std::span<uint8_t> chunk,
                          const std::function<Status()>& go_on);

  // Leaves out the source as kTooLarge, and with it the other files of its unit.
  void leave_out_with_unit(size_t index, std::string detail);
  // Leaves out the files of whole units, by their indices; the first of each as kTooMany.
  void leave_out_units(const std::vector<std::vector<size_t>>& units, const std::string& detail);
  // Leaves out a source that changed while it was read, and all others that have changed since the
  // beginning, as each of them would cost another attempt.
  void leave_out_changed(size_t index, const LeftOut& why);
  void drop_left_out();

 private:
  void leave_out(size_t index, LeftOut why);
  void hash(size_t index, std::span<uint8_t> chunk);

  std::vector<Source> sources_;
  std::vector<bool> dropped_;  // of sources_
  std::vector<LeftOut> left_out_;
};

}  // namespace compilecache::archive
