#pragma once

#include <functional>

#include "agent/process.hpp"
#include "api/agent_config.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// The loader, an init container: extracts the pod's archive into its cache directories. Whatever
// happens the pod must start, so it always returns (or, when this thread hangs, another one ends
// the process with 0), and what could not be loaded whole is removed. The outcome is written to the
// control directory and the log and reported to the operator.
//
// `leaving` is called before another thread ends the process (subprocess.hpp); it is empty where no
// parent process waits for that. After a `predecessor` that did not do nothing is loaded; what that
// one left is removed and reported. The store must live as long as the process, since threads of
// the loader may.
enum class Predecessor {
  kNone,
  kCrashed,  // a loader before this one crashed
  kEnded,    // ... was ended: with the postStart hook that ran it, or as it took too long
};
void run_load(const api::AgentConfig& config, store::Store& store, const Process& process,
              std::function<void()> leaving, Predecessor predecessor);

// Empties the directories that an ended loader had begun to fill and did not empty itself:
// it crashed, or its threads were still making files when it was ended. Reports nothing.
void empty_after_load(const api::AgentConfig& config);

}  // namespace compilecache::agent
