#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "archive/fs.hpp"

// The files that a save is given, and its report on those that it leaves out.

namespace compilecache::archive {

struct SourceFile {
  std::string local;  // an absolute path, or one below `folder`; a link at its end is not followed
  std::string path;   // in the archive
  // Set it if others may change the files: then no link on the way from this folder is followed.
  std::shared_ptr<const Fd> folder;
  // Files with the same number other than 0 are useful only together: if no archive can hold one of
  // them, none is packed.
  uint32_t unit = 0;
};

enum class LeftOutReason {
  kBusy,         // changed while it was read; a later save may have it
  kUnreadable,   // no permission, or an I/O error
  kVanished,     // does not exist any more
  kNotRegular,   // a link, device, directory, ...
  kInvalidPath,  // not allowed in an archive, see check_archive_path
  kTooLarge,     // no archive can hold it: over max_archive_bytes or max_ratio
  kTooMany,      // with it the archive would have more files than a reader accepts (Limits)
  kIncomplete,   // useless without a file of its unit that is left out for good
};
const char* to_string(LeftOutReason reason);

struct LeftOut {
  std::string path;  // in the archive
  LeftOutReason reason;
  std::string detail;  // for messages; kTooLarge, kTooMany: with sizes, limit and what to do
};

}  // namespace compilecache::archive
