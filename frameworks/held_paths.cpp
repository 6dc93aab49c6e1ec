#include "frameworks/held_paths.hpp"

#include <algorithm>
#include <functional>

namespace compilecache::frameworks {
namespace {

uint64_t hash_of(std::string_view path) { return std::hash<std::string_view>{}(path); }

void sort(std::vector<uint64_t>& hashes) {
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  hashes.shrink_to_fit();
}

bool has(const std::vector<uint64_t>& hashes, std::string_view path) {
  return std::binary_search(hashes.begin(), hashes.end(), hash_of(path));
}

}  // namespace

void HeldPaths::add(const std::vector<std::string_view>& paths) {
  std::string_view last;
  for (const std::string_view path : paths) {
    files_.push_back(hash_of(path));
    const std::string_view directory = path.substr(0, path.rfind('/'));
    if (directory.size() == path.size() || directory == last) continue;
    last = directory;
    for (size_t end = directory.size(); end != 0 && end != std::string_view::npos;
         end = directory.rfind('/', end - 1)) {
      directories_.push_back(hash_of(directory.substr(0, end)));
    }
  }
  sort(files_);
  sort(directories_);
}

bool HeldPaths::contains(std::string_view path) const { return has(files_, path); }
bool HeldPaths::has_directory(std::string_view path) const { return has(directories_, path); }

}  // namespace compilecache::frameworks
