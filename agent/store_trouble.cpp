#include "agent/store_trouble.hpp"

namespace compilecache::agent {

std::string store_trouble(const store::Store& store, const Error& error, store::Use use) {
  switch (store.trouble(error, use)) {
    case store::Trouble::kFull:
      return "volume_full";
    case store::Trouble::kMissing:
      return "store_missing";
    case store::Trouble::kForbidden:
      return "store_forbidden";
    case store::Trouble::kDiskFull:
      return "disk_full";
    case store::Trouble::kNamed:
      return error.reason;
    case store::Trouble::kOther:
      break;
  }
  return "io";
}

}  // namespace compilecache::agent
