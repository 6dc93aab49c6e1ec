#include "base/release.hpp"

namespace compilecache {

const char* release() { return COMPILECACHE_VERSION; }

}  // namespace compilecache
