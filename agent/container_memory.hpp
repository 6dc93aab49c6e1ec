#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

// Keeps the loader's and the saver's work below the memory limit of its container. Beyond that
// limit the kernel kills the whole container, the supervisor too (memory.oom.group of cgroup v2,
// which the kubelet sets), and the pod suffers. At a limit of the process only an allocation fails,
// and the work ends with an error or is restarted.

namespace compilecache::agent {

// The memory limit of this process's control group (v1 or v2) in bytes; nothing where there is
// none, or it cannot be seen. `root` is where the file system begins, for tests.
std::optional<uint64_t> container_memory(const std::string& root = "");

// The limit for the work's memory in a container of that limit: the rest is for the supervisor, the
// kernel (page tables, sockets) and the pages of the program and of files. Pure.
uint64_t work_memory(uint64_t container);

// How much of work_memory() the buffers of a save's compression may take: at most `usual`, which is
// archive::WriteSettings::compressor_bytes. Pure.
size_t compressor_memory(uint64_t work, size_t usual);

// Sets work_memory() as this process's limit (RLIMIT_DATA), unless it has a lower one. Call it
// before any thread is made: stacks count in full, so where that matters threads get smaller ones.
// Does nothing where the container has no limit.
void stay_below_container_memory();

// The memory limit of this process (RLIMIT_DATA); nothing where there is none.
std::optional<uint64_t> memory_limit();

}  // namespace compilecache::agent
