#include "agent/store_trouble.hpp"

namespace compilecache::agent {

std::string store_trouble(const store::Store& store, const Error& error, store::Use use) {
  if (!error.reason.empty()) return error.reason;
  switch (store.trouble(error, use)) {
    case store::Trouble::kFull:
      return "volume_full";
    case store::Trouble::kMissing:
      return "store_missing";
    case store::Trouble::kForbidden:
      return "store_forbidden";
    case store::Trouble::kDiskFull:
      return "spool_full";
    default:
      break;
  }
  return "io";
}

}  // namespace compilecache::agent
