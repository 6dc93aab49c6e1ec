#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/agent_config.hpp"
#include "archive/manifest.hpp"
#include "tests/unit/agent/fake_operator.hpp"

namespace compilecache::agent::testing {

// A program as a process of its own. Killed in the destructor if it still runs.
class AgentProcess {
 public:
  AgentProcess() = default;
  // `user`: run as that uid, where the test may do that; 0: as the test.
  AgentProcess(std::vector<std::string> command, const std::string& log_file,
               const std::map<std::string, std::string>& variables, unsigned user = 0);
  ~AgentProcess();
  AgentProcess(AgentProcess&& other) noexcept;
  AgentProcess& operator=(AgentProcess&& other) noexcept;

  void signal(int number) const;
  // SIGKILL to it and to whatever it has started; returns when all have ended.
  void kill_all();
  // The exit code; 128 + the signal that ended it; -1 when it does not end.
  int wait();
  [[nodiscard]] bool running();
  [[nodiscard]] std::string log() const;
  [[nodiscard]] pid_t id() const { return pid_; }

 private:
  pid_t pid_ = 0;
  std::string log_file_;
};

// Directories of a pod, a store and the program to run on them. `config` is what the webhook would
// have written; tests change it before they start something.
class AgentTest : public ::testing::Test {
 protected:
  AgentTest();
  ~AgentTest() override;

  // Talks to `operator_` from now on.
  void with_operator();
  AgentProcess start(const std::string& command, const std::vector<std::string>& more = {},
                     unsigned user = 0);
  // As the saver's container does: `command` by compilecache-supervise, which is the process that
  // is returned.
  AgentProcess supervise(std::vector<std::string> command, unsigned user = 0);
  static std::vector<std::string> saver();
  static std::string agent_program();
  // Runs it to its end.
  int run(const std::string& command, const std::vector<std::string>& more = {});
  // By SIGTERM, as a pod ends.
  int end(AgentProcess& process);

  void write(const std::string& path, const std::string& content) const;  // below torch_
  [[nodiscard]] std::string content(const std::string& path) const;
  [[nodiscard]] bool has(const std::string& path) const;
  void read(const std::string& path) const;
  void remove_cache() const;  // as in a new pod
  [[nodiscard]] nlohmann::json status() const;
  [[nodiscard]] std::string control(const std::string& name) const;

  // An archive of these files ("torch/a" to content), written straight into the store.
  archive::ArchiveInfo put_archive(const std::map<std::string, std::string>& files,
                                   const std::string& parent = "");
  // The kind of CPU that this machine has for pods of the configuration.
  [[nodiscard]] std::string host_cpu() const;
  // The paths that an archive holds.
  [[nodiscard]] std::vector<std::string> paths_of(const std::string& digest) const;
  void flip_a_byte_in(const std::string& digest) const;
  // A manifest like this one, but of a kind that only another release knows.
  [[nodiscard]] std::string put_unsupported(const std::string& manifest) const;

  std::string root_, torch_, store_, token_file_;
  api::AgentConfig config_;
  std::string archive_cpu_ = api::kAnyCpu;  // of put_archive(); empty: as 0.2 wrote it
  std::map<std::string, std::string> variables_;
  std::string log_;  // of the last run()
  FakeOperator operator_;

 private:
  [[nodiscard]] std::string new_log(const std::string& name) const;
};

bool eventually(const std::function<bool()>& condition);
std::string read_text(const std::string& path);
std::string zlib_stream(const std::string& text);

}  // namespace compilecache::agent::testing
