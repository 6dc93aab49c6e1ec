#pragma once

#include <string>

#include "archive/fs.hpp"

// Opens what lies in folders that others, an application with its cache, change at any time. No
// link on the way is followed, whatever is swapped meanwhile: behind one may lie another's files.
//
//   const Fd folder = open_folder("/compilecache/cache/torch", O_RDONLY);
//   const Fd file = open_beneath(folder.get(), "ab/x.py", O_RDONLY | O_NONBLOCK);
//
// What they return is not valid where it fails, and errno says why: ELOOP for a link on the way
// (ENOTDIR where the kernel lacks openat2(2), Linux 5.6). With O_PATH | O_NOFOLLOW a link at the
// end is opened itself. O_CLOEXEC is added. Thread-safe.

namespace compilecache::archive {

// `path` is relative to the folder and has no "..".
Fd open_beneath(int folder, const std::string& path, int flags, mode_t mode = 0);

// `path` is absolute. Links are followed as far as the mount that the root directory is on reaches:
// in a container its image, which no application changes. From the first other mount on, and at the
// end of the path in any case, they are not.
Fd open_folder(const std::string& path, int flags);

// A step of open_folder()'s way, O_PATH: the directory `name` in one that the way has come to. A
// link is followed only where that one is on the mount of the root directory.
Fd step_into(int folder, const std::string& name);

// open_beneath() without openat2(2), a part of the path after the other.
Fd open_by_parts(int folder, const std::string& path, int flags, mode_t mode = 0);

}  // namespace compilecache::archive
