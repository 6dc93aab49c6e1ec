#include "frameworks/ranks.hpp"

namespace compilecache::frameworks {

std::optional<RankDirectory> parse_rank_directory(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == path.size()) {
    return std::nullopt;
  }
  return RankDirectory{path.substr(0, slash), path.substr(slash + 1)};
}

OwnRanks::OwnRanks(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const auto parsed = parse_rank_directory(directory);
    if (parsed) by_layout_[std::string(parsed->layout)].insert(std::string(parsed->rank));
  }
}

bool OwnRanks::wants(std::string_view root, const Rules& rules, std::string_view path) const {
  const auto directory = rules.rank_directory(path);
  if (!directory) return true;
  const std::string whole = std::string(root) + "/" + std::string(*directory);
  const auto parsed = parse_rank_directory(whole);
  const auto known = by_layout_.find(parsed->layout);
  return known == by_layout_.end() || known->second.contains(parsed->rank);
}

}  // namespace compilecache::frameworks
