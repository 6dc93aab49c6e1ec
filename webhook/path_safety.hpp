#pragma once

#include <string>
#include <string_view>

// Paths in containers. Pure.

namespace compilecache::webhook {

// Absolute, without "//", "." and a slash at the end; "" when it is not absolute or has "..".
std::string normalized_path(std::string_view path);

// Whether `path` is `folder` or lies in it; both normalized.
bool is_within(std::string_view path, std::string_view folder);

// Whether an empty directory mounted there would hide files of most images: the root, top-level
// folders, system folders, home folders and their caches, folders where applications are installed.
bool is_unsafe_mount_point(std::string_view normalized);

// Whether a mount of the user's at that path could hide what our own image needs to run.
bool is_system_path(std::string_view normalized);

}  // namespace compilecache::webhook
