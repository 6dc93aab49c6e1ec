#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "archive/fs.hpp"

// What a save is given to pack, and what it says of the files that it does not pack.

namespace compilecache::archive {

struct SourceFile {
  std::string local;  // an absolute path, or one below `folder`; a link at its end is not followed
  std::string path;   // in the archive
  // Where others change what is read: no link on the way from this folder is followed then.
  std::shared_ptr<const Fd> folder;
  // Files with the same number, not 0, are of use only together: where no archive can hold one of
  // them, none is packed.
  uint32_t unit = 0;
};

enum class LeftOutReason {
  kBusy,         // changed while it was read; a later save may have it
  kUnreadable,   // no permission, or an I/O error
  kVanished,     // is not there any more
  kNotRegular,   // a link, device, directory, ...
  kInvalidPath,  // cannot stand in an archive, see check_archive_path
  kTooLarge,     // no archive can hold it: larger than all may be, or packed too small to be taken
  kIncomplete,   // of no use without another of its unit, which is kTooLarge
};
const char* to_string(LeftOutReason reason);

struct LeftOut {
  std::string path;  // in the archive
  LeftOutReason reason;
  std::string detail;  // for people; of kTooLarge with sizes, limit and what to do
};

}  // namespace compilecache::archive
