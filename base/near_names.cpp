#include "base/near_names.hpp"

#include <algorithm>
#include <utility>

namespace compilecache {
namespace {

constexpr size_t kMostEdits = 2;

// Optimal string alignment.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t k = 0; k <= b.size(); ++k) {
      if (i == 0 || k == 0) {
        edits[i][k] = i + k;
        continue;
      }
      const size_t other = edits[i - 1][k - 1] + (a[i - 1] == b[k - 1] ? 0 : 1);
      edits[i][k] = std::min({edits[i - 1][k] + 1, edits[i][k - 1] + 1, other});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
        edits[i][k] = std::min(edits[i][k], edits[i - 2][k - 2] + 1);
      }
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::vector<std::string> near_names(std::string_view text, const std::vector<std::string>& names) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& name : names) {
    const size_t edits = edits_between(text, name);
    const bool begins = !text.empty() && name.starts_with(text);
    if (begins || (edits <= kMostEdits && edits < std::min(text.size(), name.size()))) {
      near.emplace_back(begins ? 0 : edits, name);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> found;
  found.reserve(near.size());
  for (auto& [edits, name] : near) found.push_back(std::move(name));
  return found;
}

}  // namespace compilecache
