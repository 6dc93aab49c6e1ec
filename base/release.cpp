#include "base/release.hpp"

namespace compilecache {

const char* release() { return COMPILECACHE_VERSION; }

const char* image_repository() { return COMPILECACHE_IMAGE_REPOSITORY; }

}  // namespace compilecache
