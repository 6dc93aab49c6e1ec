#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// Why a framework took another key than the one under which its cache was loaded. vLLM notes what
// its key is made of in cache_key_factors.json: a table of variables ("env"), and bare hashes of
// the configuration, the compiler and the code that was traced. Their values may be secret, so the
// file never leaves its pod; what leaves it are names with keyed digests of the values.
//
//   auto before = read_factors(R"({"code_hash": "a", "env": {"VLLM_PORT": "1"}})", key);
//   auto after = read_factors(R"({"code_hash": "a", "env": {"VLLM_PORT": "2"}})", key);
//   differing_factors(*before, *after);      // {"VLLM_PORT"}
//
// Pure; safe from any thread.

namespace compilecache::frameworks {

// "env/VLLM_PORT" to a digest of its value.
struct Factors {
  std::string key;  // a digest of the key; tables of different keys cannot be compared
  std::map<std::string, std::string> digests;

  bool operator==(const Factors&) const = default;
};

// The members of a table, and of the tables in it; what does not look like a name is left out.
// `key` is to be known to those alone who compare. kInvalid when the text is no JSON object, or one
// that no engine writes: nested too deeply, of too many values (base/checked_json.hpp).
Result<Factors> read_factors(std::string_view text, std::string_view key);

// The names of what both have and that is not equal, sorted. What one has alone is a matter of the
// framework's version, not of anybody's setting. Nothing when they cannot be compared.
std::optional<std::vector<std::string>> differing_factors(const Factors& loaded,
                                                          const Factors& made);

// As text for an archive's notes, and back; kInvalid when it is none.
std::string dump(const Factors& factors);
Result<Factors> parse_factors(std::string_view text);

}  // namespace compilecache::frameworks
