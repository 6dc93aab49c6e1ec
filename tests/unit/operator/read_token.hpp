#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.hpp"

// A token as a registry reads it, by OpenSSL and no code of the product.

namespace compilecache::controller::test {

struct ReadToken {
  std::string header_text, payload_text;
  nlohmann::json header, payload;
  bool signed_by_leaf = false;   // the signature is the first certificate's of x5c
  bool leaf_is_trusted = false;  // at that time, by these authorities, for whatever use
};

// `bundle`: PEM, as the registry's rootcertbundle.
ReadToken read_token(const std::string& token, const std::string& bundle, WallTime now);

// Whether a TLS client that trusts `bundle` would take the certificate (PEM) for that server's.
bool serves(const std::string& certificate, const std::string& bundle, const std::string& name,
            WallTime now);

}  // namespace compilecache::controller::test
