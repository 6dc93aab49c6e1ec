#pragma once

#include <chrono>

#include "agent/load_record.hpp"
#include "agent/supervise_process.hpp"

// The postStart hook of a container that loads and saves (delivery Sidecar). The kubelet starts
// what comes next once it has ended; it has no time limit of its own, and one that fails makes the
// kubelet restart the container. So this program, which does next to nothing itself, runs the
// loader for a limited time and ends with 0 whatever happens. Internal to compilecache-supervise;
// no heap.

namespace compilecache::agent {

// Loads, unless that was done or tried in this pod before: beside an application that may use the
// directories nothing is loaded. Within `limit` the loader has ended by itself or is ended, and
// what it left is removed. `command`: the loader's, ended by a null pointer.
void run_load_hook(LoadRecord& record, const Signals& signals, char* const* command,
                   std::chrono::milliseconds limit);

// Removes the files of a loader that was ended in the middle, and notes that the load is over. For
// the holder of the record's lock. False: a signal ended it.
bool clean_after_load(LoadRecord& record, const Signals& signals, char* const* command);

}  // namespace compilecache::agent
