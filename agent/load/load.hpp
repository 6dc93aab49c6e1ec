#pragma once

#include <functional>

#include "agent/process.hpp"
#include "api/agent_config.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// The loader, an init container: puts the pod's archive into its cache directories. Whatever
// happens the pod must start, so it returns in every case (or ends the process with 0 from another
// thread when this one hangs), and what is not loaded whole is not there at all. The outcome is in
// the control directory (status_file.hpp), in the log and with the operator.
//
// `leaving` is called before the process is ended from another thread (subprocess.hpp); none:
// nobody waits for this process and comes after it. `after_crash`: a loader before this one
// crashed, so nothing is loaded; what it left is removed and reported.
//
// The store must live as long as the process: threads of the loader may.
void run_load(const api::AgentConfig& config, store::Store& store, const Process& process,
              std::function<void()> leaving, bool after_crash);

// Removes what a loader that is gone had begun to fill, if it did not come to do so itself: it
// crashed, or threads of it were still making files when it was ended. Without a report.
void empty_after_load(const api::AgentConfig& config);

}  // namespace compilecache::agent
