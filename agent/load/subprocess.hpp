#pragma once

#include <functional>

namespace compilecache::agent {

// Runs work in a process of its own, for a program that must end well and in time whatever becomes
// of the work:
//
//   const SubprocessEnd ended = run_in_subprocess([](const std::function<void()>& leaving) { ...
//   });
//
// A crash there is not this process's. And a thread that hangs in the kernel for good (a FUSE file
// system whose server does not answer; NFS lets a killed thread go) holds only that process: one
// that is about to end itself calls `leaving` first and is not waited for much longer. As process 1
// of a container this process cannot be gone before that one either: there the kernel waits.
//
// To be called before any thread is made. SIGTERM and SIGINT are passed on to the work; it ends
// when this process does. What `work` returns from, or throws, is kEnded.
enum class SubprocessEnd {
  kEnded,
  kCrashed,     // by a signal, or with an exit code
  kNotStarted,  // there is no process or memory for it
};
SubprocessEnd run_in_subprocess(
    const std::function<void(const std::function<void()>& leaving)>& work);

}  // namespace compilecache::agent
