#pragma once

#include <string>

#include "base/error.hpp"

// A file of a Secret or ConfigMap that a user's CompileCache names. Either may be missing, since a
// pod must not wait for it; then the folder at which it is mounted is empty.
//
//   auto text = read_mounted({kCredentials, "/compilecache/registry/.dockerconfigjson",
//                             kReasonSecretMissing, kReasonSecretWrongType});

namespace compilecache::store {

struct MountedFile {
  const char* what;  // for messages
  std::string path;
  const char* reason_missing;  // Error::reason where its object is not there
  const char* reason_without;  // … is there and has other keys, or the file cannot be read
};

// The text as it is now: kubelets replace it when the object changes. kInvalid, which is never said
// of a blob.
Result<std::string> read_mounted(const MountedFile& file);

}  // namespace compilecache::store
