#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "http/session.hpp"
#include "operator/certificates/certificates.hpp"

// The pod of config/components/registry as processes of a test: its init container's script, then
// distribution v3 with the configuration that is shipped, but for where things lie.
//
//   RegistryPod pod(folder, serving, accepted);
//   ASSERT_EQ(pod.start(), "");
//   pod.send("GET", "/v2/ml/transformer/tags/list", token);
//   pod.stop();

namespace compilecache::testing {

// Where distribution's program is: $CC_REGISTRY, which tests/run.sh sets. Empty: it is not there.
std::string registry_program();

struct RegistryAnswer {
  int status = 0;  // 0: none; the body says why
  std::string body;
  http::Headers headers;
  [[nodiscard]] std::string header(std::string_view name) const {
    return std::string(http::find_header(headers, name).value_or(""));
  }
};

class RegistryPod {
 public:
  // `serving`: its certificate, for the Service's name, and who signed it; `accepted`: the
  // authorities of tokens (PEM). The folder is kept.
  RegistryPod(std::filesystem::path folder, const controller::Certificates& serving,
              std::string accepted);
  ~RegistryPod();
  RegistryPod(const RegistryPod&) = delete;
  RegistryPod& operator=(const RegistryPod&) = delete;

  // Collects, then serves; the error, with the log.
  std::string start();
  // As the Deployment compilecache-registry-reader has it: serves this volume, which is read-only
  // for it. Only root may mount that.
  std::string start_reader(const std::filesystem::path& volume);
  // SIGTERM; waits for its end.
  void stop();
  // The authority that it accepts from the next start on.
  void accept(const std::string& authorities);
  // And what it serves.
  void serve(const controller::KeyPair& leaf);

  RegistryAnswer send(const std::string& method, const std::string& path, const std::string& token,
                      const std::string& body = {}, const std::string& type = {}) const;
  // A blob by POST and one PUT: the status of what did not go well, or 201. `digest`: its name.
  int push_blob(const std::string& repository, const std::string& token, const std::string& bytes,
                std::string& digest) const;

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] std::filesystem::path data() const { return folder_ / "data"; }
  [[nodiscard]] std::string collected() const { return collected_; }  // what the script said

 private:
  [[nodiscard]] std::string url(const std::string& path) const;
  // The command of a container.
  [[nodiscard]] std::vector<std::string> script(const std::string& name,
                                                const std::filesystem::path& volume) const;
  std::string serve(std::vector<std::string> command);

  const std::filesystem::path folder_;
  const std::string authority_;
  std::string collected_;
  uint16_t port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace compilecache::testing
