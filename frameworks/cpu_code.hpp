#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "frameworks/rules.hpp"

// Finds code for CPUs in a file of a cache: machine code, and C++ that Inductor wrote for vectors
// of one width, anywhere in it. Also in Python, in a pickled entry, in vLLM's artifacts.
//
//   CpuCodeScan scan;
//   scan.add(bytes);      // the file's, one piece after the other
//   scan.found();
//
// A GPU's machine code does not count, although it lies in ELF files, too. Compressed data
// cannot be read and counts as code, so that no such file is taken for one without. Not
// thread-safe.

namespace compilecache::frameworks {

class CpuCodeScan {
 public:
  void add(std::span<const uint8_t> bytes);
  [[nodiscard]] bool found() const { return found_; }

 private:
  void look(std::string_view text, bool at_start);

  std::string before_;  // the last bytes, of what may go on in the next piece
  bool started_ = false, found_ = false;
};

// Whether the file is code for CPUs by its name alone, so that it need not be read.
bool is_cpu_code_by_name(const Rules& rules, std::string_view path);

}  // namespace compilecache::frameworks
