#pragma once

#include <string>

#include "base/error.hpp"

// Shows a file in the user's browser, as the desktop has chosen it: `xdg-open`, the one on the
// PATH.
//
//   const auto opened = open_in_browser("report.html");
//   if (!opened) std::cerr << opened.error().message;
//
// Blocks for as long as xdg-open takes to say whether it could, two seconds at most.

namespace compilecache::cli {

// kNotFound: there is no xdg-open; kIo: it failed. Each says what to do instead.
Status open_in_browser(const std::string& file);

}  // namespace compilecache::cli
