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

// The files that the loader and the saver keep in the control directory, for each other, for the
// app and for people: status.json, loaded.files, saver.json.

namespace compilecache::agent {

// The content of status.json: the load's outcome.
struct LoadStatus {
  api::Outcome outcome = api::Outcome::kDoesNotExist;
  std::string reason;  // one word
  std::string message;
  std::optional<api::LoadSource> source;
  api::Match match = api::Match::kNone;
  std::string archive, manifest_digest, gpu_product;
  int64_t generation = 0;
  api::ArchiveKey key;
  std::string host_cpu;     // the kind of CPU of this host (frameworks/cpu.hpp)
  std::string archive_cpu;  // for which hosts the loaded archive is (api::kCpuPart)
  std::string corrupt_digest;
  int64_t milliseconds = 0, bytes = 0, files = 0;
  // Both are part of the milliseconds above: how long we waited because the operator said so
  // (`waited_for` says for what), and how long the search for the archive took.
  int64_t waited_ms = 0, asked_ms = 0;
  std::string waited_for;
  WallTime loaded_at{};
  bool reads_visible = false;
  bool reported = false;  // whether the operator knows
  std::string boot_id;    // of the node's kernel, which has a new one after a power failure

  [[nodiscard]] bool loaded() const { return outcome == api::Outcome::kSuccess; }
};

// The content of saver.json: what the saver must know after it was killed and started again.
struct SaverState {
  std::string head;                  // manifest digest of the head that it last read or committed
  std::optional<WallTime> saved_at;  // when it scanned for its last save
  int64_t saves = 0;                 // committed by this pod
  double compile_seconds = 0;        // that its last commit counted
  bool load_reported = false;
};

// Names the files below one control directory. Not thread-safe.
class ControlDirectory {
 public:
  explicit ControlDirectory(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string status_file() const { return path_ + "/status.json"; }
  // The list of loaded files, written before they are.
  [[nodiscard]] std::string loaded_file() const { return path_ + "/loaded.files"; }
  // Exists while a load is under way. Where a loader finds it, the load before was killed.
  [[nodiscard]] std::string loading_marker() const { return path_ + "/loading"; }
  // The app makes this file to ask for a save. It is removed once the result is written.
  [[nodiscard]] std::string save_request() const { return path_ + "/save"; }
  [[nodiscard]] std::string save_result() const { return path_ + "/save.result"; }

  [[nodiscard]] Status write_status(const LoadStatus& status) const;
  // Returns kNotFound where no loader has run.
  [[nodiscard]] Result<LoadStatus> read_status() const;

  // Writes loaded.files: the loaded files' paths in the archive, a line each.
  [[nodiscard]] Status write_loaded(const std::string& paths) const;
  // The loaded paths below `root` ("torch"), relative to it.
  [[nodiscard]] Result<frameworks::PathSet> read_loaded(const std::string& root) const;

  [[nodiscard]] Status write_saver_state(const SaverState& state) const;
  // Where there is no file, returns the state of a saver that starts for the first time.
  [[nodiscard]] SaverState read_saver_state() const;

 private:
  std::string path_;
};

}  // namespace compilecache::agent
