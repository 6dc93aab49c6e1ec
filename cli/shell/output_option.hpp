#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace compilecache::cli {

// The option -o, --output of a command, the same everywhere: one of these words, or
// jsonpath=TEMPLATE (cli/text/structured_output.hpp). `output` must outlive the parsing.
CLI::Option* add_output(CLI::App& command, std::string& output, std::vector<std::string> words,
                        const char* about);

}  // namespace compilecache::cli
