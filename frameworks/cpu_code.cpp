#include "frameworks/cpu_code.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <utility>

namespace compilecache::frameworks {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kElf = "\177ELF"sv;
constexpr size_t kMachineAt = 18, kHeader = 20;
// Inductor's calls and headers: "async_compile.cpp_pybinding(", "#include <.../cpp_prefix.h>",
// at::vec::Vectorized<float>. PyTorch 2.0 to 2.15 (seen: 2.6, 2.14, 2.15).
constexpr std::array<std::string_view, 3> kWritten{"async_compile.cpp"sv, "cpp_prefix"sv,
                                                   "at::vec::"sv};
constexpr size_t kLongestMark = kHeader;

// zstd, gzip, xz, bzip2, zip, an archive of object files.
constexpr std::array<std::string_view, 6> kClosed{"\x28\xB5\x2F\xFD"sv,
                                                  "\x1F\x8B"sv,
                                                  "\xFD"
                                                  "7zXZ"sv,
                                                  "BZh"sv,
                                                  "PK\x03\x04"sv,
                                                  "!<arch>\n"sv};

// RFC 1950, with the window that everybody uses: the second byte is a check of both.
bool is_zlib(std::string_view text) {
  constexpr int kMethod = 0x78, kCheck = 31, kDictionary = 0x20;
  if (text.size() < 2 || static_cast<uint8_t>(text[0]) != kMethod) return false;
  const auto second = static_cast<uint8_t>(text[1]);
  return (kMethod * 256 + second) % kCheck == 0 && (second & kDictionary) == 0;
}

bool is_gpu(uint16_t machine) {
  return machine == EM_CUDA || machine == EM_AMDGPU || machine == EM_INTELGT;
}

// An ELF header may lie anywhere; of one that is cut off nobody can tell, and nobody can run it.
bool has_machine_code(std::string_view text) {
  for (size_t at = text.find(kElf); at != std::string_view::npos; at = text.find(kElf, at + 1)) {
    if (text.size() - at < kHeader) return false;
    const bool big = text[at + EI_DATA] == ELFDATA2MSB;
    const auto low = static_cast<uint8_t>(text[at + kMachineAt + (big ? 1 : 0)]);
    const auto high = static_cast<uint8_t>(text[at + kMachineAt + (big ? 0 : 1)]);
    const bool valid = (text[at + EI_CLASS] == ELFCLASS32 || text[at + EI_CLASS] == ELFCLASS64) &&
                       (big || text[at + EI_DATA] == ELFDATA2LSB);
    if (valid && !is_gpu(static_cast<uint16_t>(high * 256 + low))) return true;
  }
  return false;
}

}  // namespace

void CpuCodeScan::look(std::string_view text, bool at_start) {
  const auto begins = [&](std::string_view mark) { return text.starts_with(mark); };
  const auto holds = [&](std::string_view mark) {
    return text.find(mark) != std::string_view::npos;
  };
  found_ = (at_start && (is_zlib(text) || std::any_of(kClosed.begin(), kClosed.end(), begins))) ||
           has_machine_code(text) || std::any_of(kWritten.begin(), kWritten.end(), holds);
}

void CpuCodeScan::add(std::span<const uint8_t> bytes) {
  if (found_ || bytes.empty()) return;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool at_start = !std::exchange(started_, true);
  if (!before_.empty()) look(before_ + std::string(text.substr(0, kLongestMark)), false);
  if (!found_) look(text, at_start);
  before_ += text.substr(text.size() - std::min(text.size(), kLongestMark));
  before_.erase(0, before_.size() - std::min(before_.size(), kLongestMark));
}

bool is_cpu_code_by_name(const Rules& rules, std::string_view path) {
  const bool written = path.ends_with(".so") || path.ends_with(".o") || path.ends_with(".a");
  return written && !rules.portable(path);
}

}  // namespace compilecache::frameworks
