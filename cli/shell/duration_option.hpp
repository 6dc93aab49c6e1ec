#pragma once

#include <chrono>
#include <string>

#include "base/error.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace compilecache::cli {

// An option that takes a duration as Go and kubectl write it: 30s, 15m, 1h30m. `value`, which must
// outlive the parsing, has the default.
CLI::Option* add_duration(CLI::App& command, const char* name, std::chrono::seconds& value,
                          const char* about);

// Between a second and a day. kInvalid: it is none; a number alone is refused, since nobody can
// see its unit. Pure.
Result<std::chrono::seconds> parse_timeout(const std::string& text);

}  // namespace compilecache::cli
