#pragma once

namespace compilecache::cli {

// config/settings.yaml as this release ships it.
const char* shipped_settings();

}  // namespace compilecache::cli
