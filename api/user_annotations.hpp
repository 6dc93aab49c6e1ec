#pragma once

#include <string>
#include <string_view>

// What people misspell in a pod template. Webhook and `explain` say it in the same words. Pure.

namespace compilecache::api {

// The fault of the key of a pod's annotation; empty: none, or it is not of compilecache.dev. For
// "compilecache.dev/cach": "compilecache.dev/cach: no such annotation; did you mean
// compilecache.dev/cache?"
std::string annotation_fault(std::string_view key);

// For a pod that has our label of a CompileCache and not the annotation.
std::string label_fault();

}  // namespace compilecache::api
