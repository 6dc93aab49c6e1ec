#include "agent/store_trouble.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace compilecache::agent {
namespace {

// Whether the message has the text that errno_error() writes for this error number.
bool says(const Error& error, int error_number) {
  return error.message.find(std::generic_category().message(error_number)) != std::string::npos;
}

}  // namespace

std::string store_trouble(const std::string& store, const Error& error, StoreUse use) {
  if (says(error, ENOSPC) || says(error, EDQUOT)) return "volume_full";
  const std::string blobs = store + "/blobs/sha256";
  if (::access(blobs.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return "store_missing";
  }
  const int mode = X_OK | (use == StoreUse::kWrite ? W_OK : R_OK);
  // AT_EACCESS checks for the effective user; access() would check for the real one.
  const bool may = ::faccessat(AT_FDCWD, blobs.c_str(), mode, AT_EACCESS) == 0;
  if (!may && (errno == EACCES || errno == EPERM || errno == EROFS)) return "store_forbidden";
  return "io";
}

}  // namespace compilecache::agent
