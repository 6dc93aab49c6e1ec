#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/compile_cache.hpp"
#include "base/error.hpp"

// The target of a copy (docs/how-to/storage/move.md), and its progress. Pure.

namespace compilecache::cli {

// A store as the command line names it; all empty: the registry installed with the operator.
struct StoreChoice {
  std::string claim, sub_path;
  std::string repository, secret, ca_config_map;

  [[nodiscard]] bool empty() const { return claim.empty() && repository.empty(); }
};

// spec.storage.copyFrom, to copy from that CompileCache. kInvalid: it keeps no archives.
Result<nlohmann::json> copy_from(const api::CompileCache& source);

// A CompileCache of that name, as `source` is (the object as the API server has it), with another
// store, into which its archives are copied.
nlohmann::json copied_cache(const nlohmann::json& source, const std::string& name,
                            const StoreChoice& store, const nlohmann::json& copy_from);

struct CopyState {
  enum class Kind { kUnderWay, kDone, kFailed } kind = Kind::kUnderWay;
  std::string message;  // what the operator says of it; may be empty
};
// Of a copy that was asked for with that generation of the CompileCache.
CopyState copy_state(const api::CompileCache& cache, int64_t generation);

}  // namespace compilecache::cli
