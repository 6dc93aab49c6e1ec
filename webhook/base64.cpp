#include "webhook/base64.hpp"

#include <openssl/evp.h>

namespace compilecache::webhook {

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  // Writes a NUL behind the last character, where std::string has one anyhow.
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return text;
}

}  // namespace compilecache::webhook
