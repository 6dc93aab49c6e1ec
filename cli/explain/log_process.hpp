#pragma once

#include <string_view>

namespace compilecache::cli {

// Which process of an engine wrote a line, by what stands before the words in it: "EngineCore
// pid=134" of "(EngineCore pid=134) INFO ...", "TP0" of "[2026-07-21 13:35:33 TP0] ..."; empty
// where the one process of an engine does not name itself. A progress bar may stand before. Pure.
std::string_view process_of(std::string_view prefix);

}  // namespace compilecache::cli
