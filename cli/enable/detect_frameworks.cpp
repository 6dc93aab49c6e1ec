#include "cli/enable/detect_frameworks.hpp"

#include <algorithm>

#include "base/strings.hpp"
#include "cli/text/json_at.hpp"
#include "frameworks/glob.hpp"

namespace compilecache::cli {
namespace {

using frameworks::Trap;
using nlohmann::json;
using Names = std::vector<std::string>;

bool matches_any(const Names& patterns, const std::string& text) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return frameworks::name_matches(pattern, text);
  });
}

bool shows(const json& container, const Trap& engine) {
  if (matches_any(engine.images, text_in(container, "/image"))) return true;
  for (const char* list : {"/command", "/args"}) {
    for (const json& word : at(container, list)) {
      if (word.is_string() && matches_any(engine.words, word)) return true;
    }
  }
  for (const json& variable : at(container, "/env")) {
    if (matches_any(engine.variables, text_in(variable, "/name"))) return true;
  }
  return false;
}

// JAX works with the defaults and keeps nothing by them, so that no trap is about it.
const Trap& jax() {
  static const Trap engine{.unless_frameworks = {"jax"},
                           .images = {"*jax*"},
                           .words = {"jax", "*import jax*", "*jax.*"},
                           .variables = {"JAX_*"}};
  return engine;
}

// Engines whose caches the default frameworks miss.
std::vector<Trap> engines_of(const std::vector<Trap>& traps) {
  std::vector<Trap> engines;
  std::copy_if(traps.begin(), traps.end(), std::back_inserter(engines),
               [](const Trap& trap) { return !trap.unless_frameworks.empty(); });
  engines.push_back(jax());
  return engines;
}

}  // namespace

DetectedFrameworks detect_frameworks(const json& pod_template, const std::vector<Trap>& traps) {
  for (const Trap& engine : engines_of(traps)) {
    for (const json& container : at(pod_template, "/spec/containers")) {
      if (!shows(container, engine)) continue;
      DetectedFrameworks found{.frameworks = engine.unless_frameworks,
                               .start_kit = engine == jax(),
                               .why = "container " + text_in(container, "/name") + " runs " +
                                      join(engine.unless_frameworks, ", ")};
      if (!found.start_kit) found.frameworks.insert(found.frameworks.end(), {"torch", "triton"});
      return found;
    }
  }
  return {{"torch", "triton"},
          false,
          "no engine was recognised by image, command or variables; torch and triton are the "
          "defaults"};
}

}  // namespace compilecache::cli
