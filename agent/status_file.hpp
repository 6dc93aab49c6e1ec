#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/agent_config.hpp"
#include "api/archive_key.hpp"
#include "api/outcomes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "frameworks/scan.hpp"

// What the loader and the saver leave in the control directory, for each other, for the app and for
// people: status.json, loaded.files, saver.json.

namespace compilecache::agent {

// status.json: what became of the load.
struct LoadStatus {
  api::Outcome outcome = api::Outcome::kDoesNotExist;
  std::string reason;  // a word
  std::string message;
  std::optional<api::LoadSource> source;
  api::Match match = api::Match::kNone;
  std::string archive, manifest_digest, gpu_product;
  int64_t generation = 0;
  api::ArchiveKey key;
  std::string corrupt_digest;
  int64_t milliseconds = 0, bytes = 0, files = 0;
  // Of the milliseconds: how long the operator told us to wait, and for what; and how long it took
  // to learn which archive.
  int64_t waited_ms = 0, asked_ms = 0;
  std::string waited_for;
  WallTime loaded_at{};
  bool reads_visible = false;
  bool reported = false;  // whether the operator knows
  std::string boot_id;    // of the node's kernel: after a power failure it is another one

  [[nodiscard]] bool loaded() const { return outcome == api::Outcome::kSuccess; }
};

// saver.json: what the saver must know after it was killed and started again.
struct SaverState {
  std::string head;                  // manifest digest of the archive that it last saw or made
  std::optional<WallTime> saved_at;  // when it scanned for its last save
  int64_t saves = 0;                 // committed by this pod
  double compile_seconds = 0;        // as its last commit knew them
  bool load_reported = false;
};

// Names the files below one control directory. Not thread-safe.
class ControlDirectory {
 public:
  explicit ControlDirectory(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string status_file() const { return path_ + "/status.json"; }
  // What was loaded, written before it.
  [[nodiscard]] std::string loaded_file() const { return path_ + "/loaded.files"; }
  // Is there while a load is under way: found by the next loader, that load was killed.
  [[nodiscard]] std::string loading_marker() const { return path_ + "/loading"; }
  // The app makes it to ask for a save; when it is gone the result is there.
  [[nodiscard]] std::string save_request() const { return path_ + "/save"; }
  [[nodiscard]] std::string save_result() const { return path_ + "/save.result"; }

  [[nodiscard]] Status write_status(const LoadStatus& status) const;
  // kNotFound: no loader has run.
  [[nodiscard]] Result<LoadStatus> read_status() const;

  // One path in the archive a line.
  [[nodiscard]] Status write_loaded(const std::string& paths) const;
  // The paths below `root` ("torch"), without it.
  [[nodiscard]] Result<frameworks::PathSet> read_loaded(const std::string& root) const;

  [[nodiscard]] Status write_saver_state(const SaverState& state) const;
  // Nothing there: a saver that starts for the first time.
  [[nodiscard]] SaverState read_saver_state() const;

 private:
  std::string path_;
};

}  // namespace compilecache::agent
