#pragma once

// Which release this is, by CMakeLists.txt. One source knows it (release.cpp), so that another
// version compiles that source anew and not all of them.

namespace compilecache {

// "0.2.0". What of a release it is, between two tags, version_line() tells (base/version.hpp).
const char* release();

}  // namespace compilecache
