#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "archive/extract.hpp"
#include "archive/fs.hpp"
#include "base/error.hpp"

// Where an extraction writes: makes directories beneath the mapped ones without following links,
// and remembers what it made, so that all of it can be removed again.

namespace compilecache::archive {

struct OpenDirectory {
  Fd fd;
  std::string path;      // for messages
  bool created = false;  // by us; then removing its topmost created parent removes all in it
};

struct Place {
  std::shared_ptr<OpenDirectory> directory;
  std::string name;

  [[nodiscard]] std::string path() const { return directory->path + "/" + name; }
};

class Destination {
 public:
  static Result<std::unique_ptr<Destination>> open(const std::vector<RootMapping>& roots);

  // Where this file of the archive goes, its directory made; none if its root is not mapped. From
  // one thread only.
  Result<std::optional<Place>> locate(const std::string& archive_path);
  // A root of the archive ("" for the whole) that is mapped.
  [[nodiscard]] bool is_mapped(std::string_view archive_path) const;

  // Creates the file (mode still to be set) and remembers it. Thread-safe. kConflict: there is one.
  Result<Fd> create(const Place& place);

  // Removes all that was made. Not while others still create.
  Status remove_created();

 private:
  struct Root {
    std::string prefix;  // "torch/", or ""
    std::shared_ptr<OpenDirectory> directory;
  };
  struct Created {
    std::shared_ptr<OpenDirectory> parent;
    std::string name;
  };

  Status open_root(const RootMapping& mapping);
  [[nodiscard]] const Root* root_of(std::string_view archive_path) const;
  Result<std::shared_ptr<OpenDirectory>> directory(const Root& root, std::string_view relative);
  Result<std::shared_ptr<OpenDirectory>> enter(const std::shared_ptr<OpenDirectory>& parent,
                                               const std::string& name);
  void remember(const std::shared_ptr<OpenDirectory>& parent, const std::string& name);

  std::vector<Root> roots_;
  std::vector<std::string> created_roots_;
  std::unordered_map<std::string, std::shared_ptr<OpenDirectory>> open_;  // by full path
  std::unordered_map<std::string, bool> created_paths_;                   // directories made by us
  std::mutex mutex_;
  std::vector<Created> created_;  // whatever was made in a directory that was there before
};

}  // namespace compilecache::archive
