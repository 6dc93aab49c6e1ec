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

// The files of a save: what they were when it began, and which of them it leaves out. A file that
// was left out stays in its place until drop_left_out(), so indices hold that long. Not
// thread-safe.
class SourceList {
 public:
  SourceList() = default;
  // Looks at each without opening it; what cannot be packed is left out. Sorted by path; of several
  // with the same path the first counts.
  explicit SourceList(std::vector<SourceFile> files);

  [[nodiscard]] const std::vector<Source>& all() const { return sources_; }
  // Since the beginning, in the order in which it was found.
  [[nodiscard]] const std::vector<LeftOut>& left_out() const { return left_out_; }
  [[nodiscard]] bool is_left_out(size_t index) const { return dropped_[index]; }

  // Hashes as little as is needed to know which sources are equal to something, and drops those
  // that cannot be read. `chunk` is memory to read into; `go_on` is asked before each file.
  Status find_equal_files(const Config& parent, std::span<uint8_t> chunk,
                          const std::function<Status()>& go_on);

  // As kTooLarge, and with it all that is of no use without it.
  void leave_out_with_unit(size_t index, std::string detail);
  // One that changed while it was read, and with it those that have changed since, too: where one
  // did others may have, and each costs a whole attempt.
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
