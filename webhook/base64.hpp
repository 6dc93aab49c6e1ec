#pragma once

#include <string>
#include <string_view>

namespace compilecache::webhook {

// Base64 with padding (RFC 4648), as an AdmissionReview carries its patch.
std::string to_base64(std::string_view bytes);

}  // namespace compilecache::webhook
