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

// Where an extraction writes: makes directories beneath the mapped ones without following links,
// and remembers what it made, so that all of it can be removed again.

namespace compilecache::archive {

// A directory of the destination. Without a descriptor, as there may be as many as there are files.
struct Folder {
  std::shared_ptr<const Folder> parent;  // null: one of the mapped ones
  std::string name;                      // in its parent; of a mapped one its whole path
  bool made = false;  // by us; then removing its topmost made parent removes all in it

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
  // Makes it where it is not there.
  Result<FolderPtr> enter(const FolderPtr& parent, std::string_view name);
  // Its descriptor, from those that are open or opened now. Thread-safe.
  Result<std::shared_ptr<const Fd>> opened(const Folder& folder);
  void remember(const FolderPtr& parent, const std::string& name);

  std::vector<Root> roots_;
  std::vector<std::string> made_roots_;
  std::unordered_set<FolderPtr, ChildHash, ChildEqual> folders_;

  Mutex mutex_;
  // A bounded number.
  std::unordered_map<const Folder*, std::shared_ptr<const Fd>> open_ GUARDED_BY(mutex_);
  // Whatever was made in a directory that was there before.
  std::vector<Place> made_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::archive
