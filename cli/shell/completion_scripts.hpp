#pragma once

#include <string>

namespace compilecache::cli {

// A script by which a shell completes `kubectl-compilecache` and `kubectl-cc`: for "bash", "zsh" or
// "fish". Empty for another one. `kubectl compilecache` is completed by kubectl's own
// script, which calls the program kubectl_complete-compilecache.
std::string completion_script(const std::string& shell);

}  // namespace compilecache::cli
