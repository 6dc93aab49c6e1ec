#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "agent/coordinator.hpp"
#include "agent/save/save_result.hpp"
#include "agent/status_file.hpp"
#include "agent/watched.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// The archive that the saver last saw or made.
struct Head {
  std::string digest;  // empty: none
  HeldFiles held;
  double compile_seconds = 0;  // that it says it took; 0: it does not say
  bool ours = false;           // what this pod loaded or made, not only saw
};
// Reads what the archive holds; an error leaves nothing behind.
Result<Head> read_head(const archive::BlobStore& store, const std::string& digest);

// How long a step may take now; shorter when the pod ends.
struct SaveLimits {
  std::function<Patience()> patience;  // for one call to the coordinator
  std::function<bool()> give_up;       // asked while the archive is written
  bool final_save = false;
  bool asked = false;                           // by the app
  std::chrono::milliseconds notices_within{0};  // that more is being made, and tells it
};

// What a save works with; all of it is the saver's.
struct SaveParts {
  const api::AgentConfig& config;
  store::Store& store;
  const std::string& node;
  Coordinator& coordinator;
  Watched& watched;
  const ControlDirectory& control;
  const Clock& clock;
  const Random& random;
  std::string loaded_digest{};  // manifest that the pod started with
};

// One save: asks for the lock, writes the layer with what the granted parent lacks, commits. A
// commit that lost to another pod's asks again and then saves what the new head lacks. `head` and
// `state` are brought up to date.
SaveResult save_once(const SaveParts& parts, Head& head, SaverState& state,
                     const SaveLimits& limits);

}  // namespace compilecache::agent
