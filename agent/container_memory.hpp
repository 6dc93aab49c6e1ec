#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

// The loader's and the saver's work stays below the memory limit of its container. Beyond that
// limit the kernel kills all of the container, the supervisor too (memory.oom.group of cgroup v2,
// which the kubelet sets), and the pod pays for it; at a limit of its own only an allocation fails,
// and the work ends with an error, or is started anew.

namespace compilecache::agent {

// Bytes, as this process's control group (v1 or v2) says; nothing where there is no limit, or none
// to be seen. `root` is where the file system begins, for tests.
std::optional<uint64_t> container_memory(const std::string& root = "");

// The limit of the work's own memory below that of its container: what is left is for the
// supervisor, the kernel (page tables, sockets) and the pages of the program and of files. Pure.
uint64_t work_memory(uint64_t container);

// Of work_memory, what may go to the buffers of a save's compression, above which
// archive::WriteSettings::compressor_bytes stays as it is. Pure.
size_t compressor_memory(uint64_t work, size_t usual);

// Sets work_memory() as this process's limit (RLIMIT_DATA), or a lower one that it has already.
// Before any thread is made: their stacks count as a whole, so they get smaller ones where that
// matters. Without a limit of the container it does nothing.
void stay_below_container_memory();

// Of this process; nothing: none.
std::optional<uint64_t> memory_limit();

}  // namespace compilecache::agent
