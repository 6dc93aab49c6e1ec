#include "base/base64.hpp"

#include <openssl/evp.h>

namespace compilecache {

std::optional<std::string> base64_decode(std::string_view text) {
  std::string packed;
  for (const char c : text) {
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') packed += c;
  }
  if (packed.empty() || packed.size() % 4 != 0) return std::nullopt;
  std::string decoded(packed.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                     reinterpret_cast<const unsigned char*>(packed.data()),
                                     static_cast<int>(packed.size()));
  if (length < 0) return std::nullopt;
  // OpenSSL counts the padding as zero bytes.
  size_t padding = 0;
  while (padding < 2 && packed[packed.size() - 1 - padding] == '=') ++padding;
  decoded.resize(static_cast<size_t>(length) - padding);
  return decoded;
}

std::string base64_encode(std::string_view bytes) {
  std::string encoded((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL writes a NUL
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  encoded.resize(static_cast<size_t>(length));
  return encoded;
}

}  // namespace compilecache
