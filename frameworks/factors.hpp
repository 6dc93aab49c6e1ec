#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// Why a framework took another key than the one under which its cache was loaded. vLLM notes what
// its key is made of in cache_key_factors.json: a table of variables ("env"), and bare hashes of
// the configuration, the compiler and the code that was traced.
//
//   differing_factors(R"({"code_hash": "a", "env": {"VLLM_PORT": "1"}})",
//                     R"({"code_hash": "a", "env": {"VLLM_PORT": "2"}})");    // {"VLLM_PORT"}
//
// Names only, never values: those may be secret. Pure; safe from any thread.

namespace compilecache::frameworks {

// The names of a table's members, and of what is no table, that are not equal in both, sorted; what
// does not look like a name is left out. kInvalid when either text is no JSON object.
Result<std::vector<std::string>> differing_factors(std::string_view loaded, std::string_view made);

}  // namespace compilecache::frameworks
