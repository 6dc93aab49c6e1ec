#include "cli/archives/counters_json.hpp"

#include <nlohmann/json.hpp>

namespace compilecache::cli {

using nlohmann::json;

json json_of(const api::LoadCounters& loads) {
  const auto& [exact, compatible, missing, failed] = loads;
  return {{"exact", exact}, {"compatible", compatible}, {"missing", missing}, {"failed", failed}};
}

json json_of(const api::EffectCounters& effect) {
  const auto& [full, partial, none, unused, unknown] = effect;
  return {{"full", full},
          {"partial", partial},
          {"none", none},
          {"unused", unused},
          {"unknown", unknown}};
}

}  // namespace compilecache::cli
