#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"

// Text for people, 100 columns wide: lines with a label, and rows under them. What strangers wrote
// is made safe for a terminal (base/printable.hpp).
//
//   Page page;
//   page.line("pod", "ml/web-1 on node gpu-7");   // "pod       ml/web-1 on node gpu-7"
//   page.table({{"NAME", "GPU"}, {"llama-1", "H100"}});
//   std::string text = page.take();
//
// No I/O; each object is for one thread.

namespace compilecache::cli {

class Page {
 public:
  // Wrapped at words; later lines are indented under the text.
  void line(const std::string& label, const std::string& text);
  // One line, indented, as it is.
  void row(const std::string& text);
  // Rows of cells, each column as wide as its widest cell.
  enum class Place { kUnderALine, kAlone };
  void table(const std::vector<std::vector<std::string>>& rows, Place place = Place::kUnderALine);
  std::string take() { return std::move(out_); }

 private:
  void end(std::string line);

  std::string out_;
};

// The text, followed by spaces up to that width.
std::string padded(std::string text, size_t width);

std::string or_dash(const std::string& text);
// "592Ki"; a count below zero, of a status that cannot be true, is none.
std::string size_text(int64_t bytes);
// How long ago a time as Kubernetes writes it was, in one unit as kubectl has ages: "3d", "5h",
// "12m", "40s"; "-" where the text is no time.
std::string age_text(const std::string& time, WallTime now);

}  // namespace compilecache::cli
