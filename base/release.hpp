#pragma once

// Which release this is, by CMakeLists.txt, and where its image is, by image/repository. One source
// knows both (release.cpp), so that another version recompiles that source and not all of them.

namespace compilecache {

// "0.2.0". What of a release it is, between two tags, version_line() tells (base/version.hpp).
const char* release();

// The image's name without a tag: "registry.example.com/compilecache".
const char* image_repository();

}  // namespace compilecache
