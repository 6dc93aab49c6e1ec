#include "archive/layer/ratio.hpp"

#include <algorithm>
#include <numeric>

namespace compilecache::archive {
namespace {

// Each file's share of the compressed bytes.
std::vector<double> shares_of(const std::vector<Frame>& frames, const std::vector<Placed>& placed) {
  std::vector<double> shares(placed.size());
  size_t at = 0;
  uint64_t begin = 0;
  for (const Frame& frame : frames) {
    const uint64_t end = begin + frame.plain;
    for (; at < placed.size() && placed[at].begin < end; ++at) {
      const uint64_t file_end = placed[at].begin + placed[at].size;
      const uint64_t from = std::max(begin, placed[at].begin);
      const uint64_t to = std::min(end, file_end);
      if (to > from) {
        shares[at] += static_cast<double>(frame.compressed) * static_cast<double>(to - from) /
                      static_cast<double>(frame.plain);
      }
      if (file_end > end) break;  // it goes on in the next frame
    }
    begin = end;
  }
  return shares;
}

}  // namespace

std::vector<size_t> beyond_ratio(const std::vector<Frame>& frames,
                                 const std::vector<Placed>& placed, uint64_t max_ratio) {
  const auto ratio = static_cast<double>(max_ratio);
  double plain = 0;
  double compressed = 0;
  for (const Frame& frame : frames) {
    plain += frame.plain;
    compressed += frame.compressed;
  }
  const auto kept = [&] {
    return plain <= static_cast<double>(kRatioCountsFrom) || plain / ratio <= compressed;
  };
  if (kept()) return {};
  const std::vector<double> shares = shares_of(frames, placed);
  // How many more compressed bytes the file would need.
  const auto lacks = [&](size_t i) {
    return static_cast<double>(placed[i].size) / ratio - shares[i];
  };
  std::vector<size_t> order(placed.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lacks(a) > lacks(b); });
  std::vector<size_t> beyond;
  for (const size_t i : order) {
    if (kept() || lacks(i) <= 0) break;
    plain -= static_cast<double>(placed[i].size);
    compressed -= shares[i];
    beyond.push_back(i);
  }
  return beyond;
}

}  // namespace compilecache::archive
