#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "agent/control_directory.hpp"
#include "agent/coordinator.hpp"
#include "agent/cpu_code.hpp"
#include "agent/save/save_result.hpp"
#include "agent/watched.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// The head that the saver last read or committed.
struct Head {
  std::string digest;  // empty: none
  HeldFiles held;
  Notes notes;
  double compile_seconds = 0;  // as its index entry says; 0: not known
  std::string cpu;             // for which hosts it is (cpu_of())
  bool ours = false;           // this pod has loaded or committed it, not only read it
};
// Reads which files the archive holds.
Result<Head> read_head(const archive::BlobStore& store, const std::string& digest);

// Files found to be too large for an archive, so that they are not compressed again to find out.
struct TooMuch {
  std::string parent;  // manifest that it was to extend
  uint64_t bytes = 0;  // plain; 0: nothing
  std::string why;
};

// How long the steps of a save may take; shorter when the pod ends.
struct SaveLimits {
  std::function<Patience()> patience;  // for one call to the coordinator
  std::function<bool()> give_up;       // asked while the archive is written
  bool final_save = false;
  bool asked = false;                           // by the app
  std::chrono::milliseconds notices_within{0};  // how soon it reports that more is being compiled
};

// The parts that a save works with, all owned by the saver.
struct SaveParts {
  const api::AgentConfig& config;
  store::Store& store;
  const std::string& node;
  Coordinator& coordinator;
  Watched& watched;
  CpuCode& cpu_code;
  TooMuch& too_much;
  const ControlDirectory& control;
  const Clock& clock;
  const Random& random;
  std::string loaded_digest{};  // manifest that the pod started with
};

// Makes one save: asks for the lock, writes a layer with what the granted parent lacks, commits.
// When another pod's commit came first it asks again, and then saves what the new head lacks.
// `head` and `state` are brought up to date.
SaveResult save_once(const SaveParts& parts, Head& head, SaverState& state,
                     const SaveLimits& limits);

}  // namespace compilecache::agent
