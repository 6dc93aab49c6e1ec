#pragma once

#include <memory>
#include <string>

// Certificates made on the spot, so that no private key lies in the tree.

namespace compilecache::http::testing {

struct Pair {
  std::string certificate_pem;
  std::string key_pem;
};

// Signs certificates for names; its own certificate is what clients trust.
class TestCa {
 public:
  explicit TestCa(const std::string& common_name);
  ~TestCa();
  TestCa(const TestCa&) = delete;
  TestCa& operator=(const TestCa&) = delete;

  [[nodiscard]] const std::string& pem() const { return pem_; }
  // The name of its file in a folder of authorities, without ".0".
  [[nodiscard]] std::string subject_hash() const;
  // Good from an hour ago until `seconds` from now, for a name or an address.
  [[nodiscard]] Pair issue(const std::string& dns_name, long seconds = 3600) const;
  // The same for the client, "clientAuth", or another extended use.
  [[nodiscard]] Pair issue_for(const std::string& use, long seconds = 3600) const;

 private:
  struct Native;
  [[nodiscard]] Pair sign(int extension, const std::string& value, long seconds) const;
  std::unique_ptr<Native> native_;
  std::string pem_;
};

}  // namespace compilecache::http::testing
