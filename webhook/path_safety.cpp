#include "webhook/path_safety.hpp"

#include <algorithm>
#include <array>

#include "base/strings.hpp"

namespace compilecache::webhook {

namespace {

constexpr std::array<std::string_view, 11> kSystemFolders{
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", "/boot", "/run"};
// Folders that hold a folder for each application or user: /opt/app, /home/jane.
constexpr std::array<std::string_view, 5> kFoldersOfFolders{"/home", "/opt", "/srv", "/var",
                                                            "/var/lib"};

size_t depth_of(std::string_view path) {
  return static_cast<size_t>(std::count(path.begin(), path.end(), '/'));
}

}  // namespace

std::string normalized_path(std::string_view path) {
  if (!path.starts_with('/')) return {};
  std::string result;
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    result += "/" + part;
  }
  return result.empty() ? "/" : result;
}

bool is_within(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool is_system_path(std::string_view path) {
  return path == "/" ||
         std::any_of(kSystemFolders.begin(), kSystemFolders.end(),
                     [&](std::string_view folder) { return is_within(path, folder); }) ||
         is_within(path, "/var/run");
}

bool is_unsafe_mount_point(std::string_view path) {
  if (path.empty() || is_system_path(path) || depth_of(path) == 1) return true;
  if (path.ends_with("/.cache")) return true;
  return std::any_of(kFoldersOfFolders.begin(), kFoldersOfFolders.end(),
                     [&](std::string_view folder) {
                       return is_within(path, folder) && depth_of(path) <= depth_of(folder) + 1;
                     });
}

}  // namespace compilecache::webhook
