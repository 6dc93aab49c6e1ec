#pragma once

#include <string>

#include "archive/fs.hpp"

// Opens files in folders that others (an application with its cache) may change at any time. No
// link on the way is followed, even if one is swapped in meanwhile: it may lead to somebody else's
// files.
//
//   const Fd folder = open_folder("/compilecache/cache/torch", O_RDONLY);
//   const Fd file = open_beneath(folder.get(), "ab/x.py", O_RDONLY | O_NONBLOCK);
//
// On failure the descriptor is not valid and errno says why: ELOOP for a link on the way (ENOTDIR
// where the kernel lacks openat2(2), Linux 5.6). With O_PATH | O_NOFOLLOW a link at the end of the
// path is itself opened. O_CLOEXEC is always set. Thread-safe.

namespace compilecache::archive {

// `path` is relative to the folder and has no "..".
Fd open_beneath(int folder, const std::string& path, int flags, mode_t mode = 0);

// `path` is absolute. Links are followed on the mount of the root directory only: in a container
// that is its image, which no application changes. They are not followed from the first other mount
// on, and never at the end of the path.
Fd open_folder(const std::string& path, int flags);

// One step of open_folder(): opens the directory `name` in `folder` with O_PATH. A link is followed
// only if `folder` is on the mount of the root directory.
Fd step_into(int folder, const std::string& name);

// open_beneath() without openat2(2): opens one component of the path after the other.
Fd open_by_parts(int folder, const std::string& path, int flags, mode_t mode = 0);

}  // namespace compilecache::archive
