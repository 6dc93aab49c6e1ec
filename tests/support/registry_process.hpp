#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

// Real registries as processes of a test: Debian's docker-registry (2.8), and distribution v3,
// which `tests/cluster/cluster prepare registry` builds.
//
//   RegistryProcess registry(RegistryKind::kDebian, folder, {.htpasswd = line});
//   ASSERT_EQ(registry.problem(), "");
//   registry.host();                       // "127.0.0.1:12345"

namespace compilecache::testing {

enum class RegistryKind { kDebian, kDistribution };

// For RegistrySetup::htpasswd: "me" with the password "secret", as htpasswd -B writes it.
inline constexpr char kHtpasswd[] =
    "me:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

struct RegistrySetup {
  std::string certificate_pem;  // with its key: HTTPS
  std::string key_pem;
  std::string htpasswd;  // lines "user:bcrypt": Basic authentication
  // Token authentication: where tokens are given, and who signs them.
  std::string token_realm;
  std::string token_authority_pem;
  std::string data;     // the folder of its blobs; empty: one below `folder`
  bool deletes = true;  // of manifests
};

// A program that nobody has built or installed: a test that needs it is skipped with this.
// Empty: it is there.
std::string missing_registry(RegistryKind kind);

// Ended by the destructor.
class RegistryProcess {
 public:
  // Waits until it answers. `folder` is made if it is not there.
  RegistryProcess(RegistryKind kind, std::string folder, RegistrySetup setup = {});
  ~RegistryProcess();
  RegistryProcess(const RegistryProcess&) = delete;
  RegistryProcess& operator=(const RegistryProcess&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  // Why it does not answer, with its log; empty: it does.
  [[nodiscard]] std::string problem() const;
  void kill();
  void end();  // SIGTERM; what is under way ends
  // At the same port, on the same data; `kind`: by another program.
  void start_again();
  void start_again(RegistryKind kind);
  // While it does not run: frees what nothing names, as the init container of
  // config/components/registry does. What that said; distribution v3 alone.
  std::string collect();
  // Where its files are.
  [[nodiscard]] std::string data() const;

 private:
  void write_config() const;
  void start();
  [[nodiscard]] bool answers() const;

  RegistryKind kind_;
  const std::string folder_;
  const RegistrySetup setup_;
  uint16_t port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace compilecache::testing
