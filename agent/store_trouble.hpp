#pragma once

#include <string>

#include "base/error.hpp"
#include "store/store.hpp"

// Finds out why a store could not be used, where the error only says that the operating system
// refused. Returns the reason's word (docs/troubleshoot/reasons.md):
//
//   volume_full      no space, or over a quota
//   store_missing    its folder is not there: the operator's next sweep makes it anew
//   store_forbidden  it is there, and this user may not write to it (read, for a loader)
//   disk_full        the disk here is, where blobs are kept on their way to a registry
//   registry_...     and the other words of api/registry_trouble.hpp
//   io               anything else; the error's message has it
//
// It examines the store as it is now. Safe from any thread.

namespace compilecache::agent {

std::string store_trouble(const store::Store& store, const Error& error, store::Use use);

}  // namespace compilecache::agent
