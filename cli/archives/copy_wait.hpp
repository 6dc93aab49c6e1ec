#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.hpp"
#include "cli/cluster/cluster.hpp"

namespace compilecache::cli {

// Has the operator copy archives into a CompileCache that there is: sets its
// spec.storage.copyFrom. The object as it is then.
Result<nlohmann::json> ask_for_copy(const Cluster& cluster, const std::string& name,
                                    const nlohmann::json& copy_from);

// The spec.storage.copyFrom of a CompileCache, borrowed for the copy of an import:
//
//   BorrowedCopyFrom borrowed(cluster, "llama", inbox.metadata.name);
//   const Undo undo([&] { borrowed.give_back(); });
//   auto asked = borrowed.ask(copy_from);
//   ...
//   borrowed.give_back();   // as it was, what the user had set there included
//
// The cluster must outlive it. Thread-safe.
class BorrowedCopyFrom {
 public:
  // `inbox`: the CompileCache that the import copies from, which nobody else names.
  BorrowedCopyFrom(const Cluster& cluster, std::string name, std::string inbox)
      : cluster_(cluster), name_(std::move(name)), inbox_(std::move(inbox)) {}

  // Reads what is there and asks for the copy, as ask_for_copy().
  Result<nlohmann::json> ask(const nlohmann::json& copy_from);
  // Whether the user had set one.
  [[nodiscard]] bool was_set() const;
  // Does nothing before ask(), or where somebody has set another one in the meantime.
  void give_back() const;

 private:
  const Cluster& cluster_;
  const std::string name_, inbox_;
  mutable Mutex mutex_;
  std::optional<nlohmann::json> before_ GUARDED_BY(mutex_);  // null: it was not set
};

// Names of CompileCaches that imports copy from, and that are never made: "import-3f2a91bc",
// "llama-import-3f2a91bc".
std::string inbox_name(const std::string& cache);
bool is_inbox_name(const std::string& name);

// Waits until the copy of that generation of the CompileCache has ended, and passes the operator's
// messages to `progress` meanwhile. Returns its last message. kTimeout: it has not ended, and
// continues; kUnavailable: it failed, and the operator retries it; kInvalid: its store
// stays unusable until somebody changes something.
Result<std::string> wait_for_copy(const Cluster& cluster, const std::string& name,
                                  int64_t generation, std::chrono::seconds limit,
                                  std::ostream& progress);
// That error for people, where the copy is not taken back.
Error still_copying(const Error& error, const Cluster& cluster, const std::string& name);

}  // namespace compilecache::cli
