#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"

// File operations in the pod's own directories (an emptyDir, never the shared volume). The app may
// change anything there at any time, so no link is followed (archive/beneath.hpp) and nothing waits
// for the other end of a pipe.

namespace compilecache::agent {

// Makes `path` and its missing parents, each with mode 0777 whatever the umask, so that an app of
// any user can write there. A directory that torch may not write to kills the app. Existing
// directories that we own get that mode too; others are left as they are.
Status make_open_directory(const std::string& path);

// Removes everything in `directory`, but not itself and not `keep` (a path in it, or empty). Goes
// on after failures and returns the first. Links are removed, not followed.
Status clear_directory(const std::string& directory, const std::string& keep);

// Whether anything but `keep` is in it. A directory that is not there holds nothing.
bool directory_filled(const std::string& directory, const std::string& keep);

// Replaces a small file atomically (temporary file, rename), readable by every user.
Status write_file(const std::string& path, std::string_view text);

// kNotFound: no such file. kInvalid: not a regular file. kTooLarge above 64 MiB.
Result<std::string> read_app_file(const std::string& path);

// Reads a file that the app cannot change; links are followed.
Result<std::string> read_file(const std::string& path);

bool file_exists(const std::string& path);
// When it was written; nothing where it is not there.
std::optional<WallTime> modified_at(const std::string& path);
// Removes a file. It is no error when there is none.
Status remove_file(const std::string& path);

// Whether the file system records reads in access times. Tried with a file in `directory`: its
// access time is set to that of loaded files, a byte is read, and the time checked. False on
// noatime mounts and where it cannot be tried.
bool reads_are_visible(const std::string& directory);

}  // namespace compilecache::agent
