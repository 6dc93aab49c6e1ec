#pragma once

#include <string>

#include "tests/unit/http/certificates.hpp"

namespace compilecache::store::test {

// A token as the operator mints them: ES256, its certificate in x5c. `actions` is "pull" or
// "pull,push", of one repository.
std::string sign_token(const http::testing::Pair& signer, const std::string& repository,
                       const std::string& actions, long seconds = 300);

}  // namespace compilecache::store::test
