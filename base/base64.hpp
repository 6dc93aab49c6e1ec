#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace compilecache {

// The bytes that standard base64 stands for; white space is skipped. Nothing when it is not that.
std::optional<std::string> base64_decode(std::string_view text);

std::string base64_encode(std::string_view bytes);

}  // namespace compilecache
