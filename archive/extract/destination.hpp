#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "archive/extract/extract.hpp"
#include "archive/fs.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"

// The directories that an extraction writes to. It creates directories beneath the mapped ones
// without following links, and remembers what it created, so that all of it can be removed again.

namespace compilecache::archive {

// A directory of the destination. It has no descriptor, as there may be as many directories as
// files.
struct Folder {
  std::shared_ptr<const Folder> parent;  // null: one of the mapped ones
  std::string name;                      // in its parent; a mapped one has its whole path
  bool made = false;                     // by us; removing its topmost made parent removes it too

  [[nodiscard]] std::string path() const { return parent ? parent->path() + "/" + name : name; }
};

struct Place {
  std::shared_ptr<const Folder> folder;
  std::string name;

  [[nodiscard]] std::string path() const { return folder->path() + "/" + name; }
};

class Destination {
 public:
  static Result<std::unique_ptr<Destination>> open(const std::vector<RootMapping>& roots);

  // Returns where this file of the archive goes and creates its directory; returns none if its root
  // is not mapped. Call it from one thread only.
  Result<std::optional<Place>> locate(const std::string& archive_path);
  // Whether the root of this path ("" for the whole archive) is mapped.
  [[nodiscard]] bool is_mapped(std::string_view archive_path) const;

  // Creates the file and remembers it; the caller sets its mode. Thread-safe. kConflict: it exists.
  Result<Fd> create(const Place& place);

  // Removes all that was created. Call it when no thread creates files any more.
  Status remove_created();

 private:
  using FolderPtr = std::shared_ptr<const Folder>;
  struct Root {
    std::string prefix;  // "torch/", or ""
    FolderPtr folder;
    std::shared_ptr<const Fd> fd;
  };
  using Child = std::pair<const Folder*, std::string_view>;
  struct ChildHash {
    using is_transparent = void;
    size_t operator()(const Child& child) const;
    size_t operator()(const FolderPtr& folder) const;
  };
  struct ChildEqual {
    using is_transparent = void;
    static Child child(const FolderPtr& folder) { return {folder->parent.get(), folder->name}; }
    static Child child(const Child& child) { return child; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return child(a) == child(b);
    }
  };

  Status open_root(const RootMapping& mapping);
  [[nodiscard]] const Root* root_of(std::string_view archive_path) const;
  // Returns the directory, which is created if it does not exist.
  Result<FolderPtr> enter(const FolderPtr& parent, std::string_view name);
  // Returns the folder's descriptor, which is opened if it is not open yet. Thread-safe.
  Result<std::shared_ptr<const Fd>> opened(const Folder& folder);
  void remember(const FolderPtr& parent, const std::string& name);

  std::vector<Root> roots_;
  std::vector<std::string> made_roots_;
  std::unordered_set<FolderPtr, ChildHash, ChildEqual> folders_;

  Mutex mutex_;
  // The open descriptors, of bounded number.
  std::unordered_map<const Folder*, std::shared_ptr<const Fd>> open_ GUARDED_BY(mutex_);
  // The paths created in directories that existed before.
  std::vector<Place> made_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::archive
