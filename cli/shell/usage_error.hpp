#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace compilecache::cli {

// The error of a command line, for people, in kubectl's layout: the fault, what was probably meant,
// and where to read on.
//
//   Error: unknown command "statsu" for "kubectl compilecache"; did you mean "status"?
//   See 'kubectl compilecache --help' for usage.
//
// `app` is the program, with the command line of the error parsed as far as it went. `word` is what
// stands in the place of the command; empty: nothing does.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error, const std::string& word);

// The first of those lines for a command that there is not; it ends without a newline.
std::string unknown_command(const CLI::App& app, const std::string& word);

}  // namespace compilecache::cli
