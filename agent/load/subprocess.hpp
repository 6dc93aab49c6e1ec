#pragma once

#include <functional>

namespace compilecache::agent {

// Runs work in a process of its own, for a program that must end successfully and in time whatever
// the work does:
//
//   const SubprocessEnd ended = run_in_subprocess([&](const std::function<void()>& leaving) {
//     run_load(config, store, process, leaving, Predecessor::kNone);
//   });
//
// A crash of the work does not end this process. Nor does a thread that hangs in the kernel for
// good, on a FUSE file system whose server does not answer; on NFS a killed thread ends. Work that
// is about to end itself calls `leaving` first, and is not waited for much longer. Where this
// process is process 1 of a container, though, the kernel waits for that thread before it lets this
// process go.
//
// Call it before any thread is made. SIGTERM and SIGINT are passed on to the work, which ends when
// this process does. The result is kEnded whether `work` returns or throws.
enum class SubprocessEnd {
  kEnded,
  kCrashed,     // by a signal, or with an exit code
  kNotStarted,  // there is no process or memory for it
};
SubprocessEnd run_in_subprocess(
    const std::function<void(const std::function<void()>& leaving)>& work);

}  // namespace compilecache::agent
