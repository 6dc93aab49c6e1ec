#pragma once

#include <string>

#include "base/error.hpp"

namespace compilecache::cli {

// An error of kube::Client in one clause: what the API server said, or why it could not be asked,
// without the request and the status code around it. Users know what they asked for. Pure.
Error plain_error(const Error& error);

// The same for an object that was to be read by its name: `CompileCache "llama" not found in
// namespace "ml"`. Empty `ns`: it has none.
Error not_read(const Error& error, const std::string& kind, const std::string& ns,
               const std::string& name);

}  // namespace compilecache::cli
