#include "frameworks/cpu.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/sha256.hpp"
#include "base/strings.hpp"

namespace compilecache::frameworks {
namespace {

constexpr size_t kCpuDigits = 8;
constexpr size_t kLongestSetting = 16;
constexpr size_t kMostNameBytes = 63;

// Most flags of x86 are about the kernel's work. Vector instructions of the future begin like those
// of the past.
constexpr std::array<std::string_view, 12> kX86Families{
    "sse", "ssse", "avx", "amx", "apx", "fma", "bmi", "sha", "3dnow", "vaes", "vpclmul", "gfni"};
constexpr std::array<std::string_view, 18> kX86Features{
    "abm", "adx",   "aes",         "cmpccxadd", "cx16", "f16c",   "lahf_lm", "mmx", "mmxext",
    "lwp", "movbe", "misalignsse", "pclmulqdq", "pni",  "popcnt", "raoint",  "tbm", "xop"};
// Nearly all flags of ARM are instructions; these are not, or compilers do not use them by default.
constexpr std::array<std::string_view, 16> kArmOthers{
    "evtstrm", "cpuid", "ssbs", "sb",  "dit",  "dgh",  "rng",  "dcpop",
    "dcpodp",  "ecv",   "wfxt", "mte", "mte3", "paca", "pacg", "bti"};

template <size_t size>
bool is_one_of(const std::array<std::string_view, size>& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool counts_on_x86(std::string_view flag) {
  return is_one_of(kX86Features, flag) ||
         std::any_of(kX86Families.begin(), kX86Families.end(),
                     [&](std::string_view family) { return flag.starts_with(family); });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// All processors together: where they differ, the compiling one is chosen by chance.
std::set<std::string> features_in(std::string_view cpuinfo) {
  std::set<std::string> found;
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    cpuinfo.remove_prefix(std::min(cpuinfo.size(), line.size() + 1));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, colon));
    const bool x86 = name == "flags";
    const bool arm = name == "Features";
    // s390x; RISC-V; POWER.
    const bool other = name == "features" || name == "isa" || name == "cpu";
    if (!x86 && !arm && !other) continue;
    for (const std::string& word : split(std::string(trimmed(line.substr(colon + 1))), ' ')) {
      if (word.empty() || (x86 && !counts_on_x86(word))) continue;
      if (arm && is_one_of(kArmOthers, word)) continue;
      found.insert(word);
    }
  }
  return found;
}

std::string widest(const std::set<std::string>& features) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kWidths{
      {{"amx_tile", "amx"},
       {"avx512f", "avx512"},
       {"avx2", "avx2"},
       {"avx", "avx"},
       {"sse2", "sse2"},
       {"sve2", "sve2"},
       {"sve", "sve"},
       {"asimd", "neon"}}};
  for (const auto& [feature, width] : kWidths) {
    if (features.contains(std::string(feature))) return std::string(width);
  }
  return "cpu";
}

// Values as they may stand in a name; the digest distinguishes them.
std::string settings_text(const std::vector<std::string>& variables) {
  std::string text;
  for (const std::string& variable : variables) {
    std::string value;
    for (const char letter : variable.substr(variable.find('=') + 1)) {
      const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
      if (plain && value.size() < kLongestSetting) value += letter;
    }
    text += "-as-" + (value.empty() ? "other" : value);
  }
  return text;
}

}  // namespace

HostCpu host_cpu(std::string_view cpuinfo, int sve_bits,
                 const std::vector<std::string>& variables) {
  std::set<std::string> features = features_in(cpuinfo);
  if (features.empty()) return {};
  if (sve_bits > 0) features.insert("sve-bits-" + std::to_string(sve_bits));
  HostCpu host{"", {features.begin(), features.end()}};
  std::string all = join(host.features, " ");
  for (const std::string& variable : variables) all += "\n" + variable;
  const std::string digest = "-" + sha256_hex(all).substr(0, kCpuDigits);
  host.name =
      (widest(features) + settings_text(variables)).substr(0, kMostNameBytes - digest.size()) +
      digest;
  return host;
}

}  // namespace compilecache::frameworks
