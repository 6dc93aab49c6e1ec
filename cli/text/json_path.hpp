#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.hpp"

namespace compilecache::cli {

// A JSONPath template as kubectl has it in -o jsonpath=, as far as people use it: text, {.a.b},
// {['a']}, {[0]}, {[-1]}, {[1:3]}, {[*]}, {.*}, {..name}, {[?(@.type=="Ready")]}, {"\n"}, and
// {range .items[*]}…{end}. Results are separated by blanks; what is not there is nothing. A text
// without braces is one path.
//
//   json_path(list, "{range [*]}{.name}{\"\\n\"}{end}")
//
// kInvalid: it cannot be read. Characters that would change a terminal are replaced in values.
// Pure. Source: client-go's util/jsonpath.
Result<std::string> json_path(const nlohmann::json& value, const std::string& text);

}  // namespace compilecache::cli
