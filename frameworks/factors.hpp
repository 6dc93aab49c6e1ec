#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// Finds out why a framework computed another key than the one under which its cache was loaded.
// vLLM writes what its key is made of into cache_key_factors.json: a table of variables ("env"),
// and hashes of the configuration, the compiler and the traced code. Values may be secret, so the
// file never leaves its pod; only names with keyed digests of the values do.
//
//   auto before = read_factors(R"({"code_hash": "a", "env": {"VLLM_PORT": "1"}})", key);
//   auto after = read_factors(R"({"code_hash": "a", "env": {"VLLM_PORT": "2"}})", key);
//   differing_factors(*before, *after);      // {"VLLM_PORT"}
//
// Pure; safe from any thread.

namespace compilecache::frameworks {

// Maps a factor's name ("env/VLLM_PORT") to a digest of its value.
struct Factors {
  std::string key;  // a digest of the key; tables of different keys cannot be compared
  std::map<std::string, std::string> digests;

  bool operator==(const Factors&) const = default;
};

// Reads the members of a table, and of the tables in it; what does not look like a name is left
// out. `key` must be known only to those who compare. kInvalid when the text is no JSON object, or
// one that no engine writes: nested too deeply, or with too many values (base/checked_json.hpp).
Result<Factors> read_factors(std::string_view text, std::string_view key);

// The names of factors that both have with different values, sorted. A factor that only one has
// comes from the framework's version, not from anybody's setting. Nothing when they cannot be
// compared.
std::optional<std::vector<std::string>> differing_factors(const Factors& loaded,
                                                          const Factors& made);

// Converts factors to the text of an archive's note and back; kInvalid when the text is no such
// note.
std::string dump(const Factors& factors);
Result<Factors> parse_factors(std::string_view text);

}  // namespace compilecache::frameworks
