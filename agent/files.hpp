#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"

// The agent's dealings with the pod's own directories (an emptyDir, never the shared volume). The
// app may change all that is in them at any time, so no link there is followed
// (archive/beneath.hpp) and nothing waits for the other end of a pipe.

namespace compilecache::agent {

// Makes `path` and its missing parents, each 0777 whatever the umask, so that an app of any user
// can extend them: a directory that torch may not write to kills the app. Existing ones of ours are
// opened up too; somebody else's are left as they are.
Status make_open_directory(const std::string& path);

// Removes everything in `directory` but `keep` (a path in it, or empty), and not itself. Goes on
// after failures and returns the first. Links are removed, not followed.
Status clear_directory(const std::string& directory, const std::string& keep);

// Whether anything but `keep` is in it. A directory that is not there holds nothing.
bool directory_filled(const std::string& directory, const std::string& keep);

// Replaces a small file at once (temporary file, rename), readable by every user.
Status write_file(const std::string& path, std::string_view text);

// kNotFound: no such file. kInvalid: not a regular file. kTooLarge above 64 MiB.
Result<std::string> read_app_file(const std::string& path);

// The same of what the app cannot change; links are followed.
Result<std::string> read_file(const std::string& path);

bool file_exists(const std::string& path);
// When it was written; nothing where it is not there.
std::optional<WallTime> modified_at(const std::string& path);
// Not being there is success.
Status remove_file(const std::string& path);

// Whether the file system notes that a file was read, tried with a file in `directory`: its access
// time is set to that of loaded files, a byte read, the time looked at. False on noatime mounts and
// where it cannot be tried.
bool reads_are_visible(const std::string& directory);

}  // namespace compilecache::agent
