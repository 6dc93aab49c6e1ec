#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace compilecache::frameworks {

// The components of "a/b/c": views into `path`, which must outlive them.
std::vector<std::string_view> components(std::string_view path);

// A pattern that matches paths, component by component.
//
//   Glob("fxgraph/*/*").matches("fxgraph/ab/KEY");      // true
//   Glob("**/*.so").matches("a/b/c.so");                // true; also "c.so"
//
// `*` matches any characters within a component, `?` one, `**` any number of whole components.
// Immutable, safe from any thread.
class Glob {
 public:
  explicit Glob(std::string_view pattern);

  [[nodiscard]] bool matches(std::string_view path) const { return matches(components(path)); }
  [[nodiscard]] bool matches(const std::vector<std::string_view>& path) const {
    return matches(path, path.size());
  }
  // Matches only the first `count` components of the path.
  [[nodiscard]] bool matches(const std::vector<std::string_view>& path, size_t count) const;

  [[nodiscard]] size_t size() const { return pattern_.size(); }
  // The last component as it was written.
  [[nodiscard]] const std::string& last() const { return pattern_.back(); }

 private:
  std::vector<std::string> pattern_;
};

// `*` and `?` within one component.
bool name_matches(std::string_view pattern, std::string_view name);

}  // namespace compilecache::frameworks
