#include "store/directory/small_file.hpp"

#include "archive/fs.hpp"

namespace compilecache::store {

Status write_if_different(const std::string& directory, const std::string& name,
                          const std::string& content) {
  const auto now = archive::read_small_file(directory + "/" + name, kMaxSmallFile);
  if (now && *now == content) return {};
  return archive::replace_file(directory, name, content);
}

}  // namespace compilecache::store
