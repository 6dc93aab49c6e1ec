#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/agent/agent_fixture.hpp"

// Shared by the tests of the saver as a process: an archive to load, an application's files, and
// what the saver's log says.

namespace compilecache::agent::testing {

class Save : public AgentTest {
 protected:
  Save() { with_operator(); }

  // A pod that was given an archive with two entries.
  std::string load_archive() {
    const auto archive = put_archive({{"torch/fxgraph/ab/ONE/file", "entry one"},
                                      {"torch/fxgraph/cd/TWO/file", "entry two"},
                                      {"torch/ef/cused.py", "used"},
                                      {"torch/ef/cdead.py", "unread"}});
    operator_.set_head(archive.manifest, 1);
    EXPECT_EQ(run("load"), 0);
    EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
    return archive.manifest;
  }
  bool last_effect_is(const std::string& effect) {
    return eventually([&] {
      const auto reports = operator_.calls("POST", "/v1/effect");
      return !reports.empty() && reports.back().body["effect"] == effect;
    });
  }
  // A file that was written `seconds` ago.
  void make(const std::string& path, int seconds) const {
    const std::string prepared = root_ + "/prepared";
    std::ofstream(prepared) << path;
    std::filesystem::last_write_time(
        prepared, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(seconds));
    std::filesystem::create_directories(std::filesystem::path(torch_ + "/" + path).parent_path());
    std::filesystem::rename(prepared, torch_ + "/" + path);
  }
  [[nodiscard]] double committed_seconds(const std::string& save) const {
    const auto calls = operator_.calls("POST", "/v1/saves/" + save + "/commit");
    return calls.empty() ? -1 : calls.back().body.value("compile_seconds", -1.0);
  }
  // As an app does.
  [[nodiscard]] nlohmann::json ask_for_a_save() const {
    std::ofstream(control("save")).close();
    EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(control("save")); }));
    return nlohmann::json::parse(read_text(control("save.result")), nullptr, false);
  }
  static bool says(const AgentProcess& process, const std::string& words, size_t from = 0) {
    return eventually([&] { return process.log().find(words, from) != std::string::npos; });
  }
  // Whether the saver (with --debug) looks again from now on and sees and decides this.
  static bool sees(const AgentProcess& saver, const std::string& what) {
    return says(saver, "looked " + what, saver.log().size());
  }
  // Nothing to save, and it was still for long enough to be saved.
  static bool has_all_it_wants(const AgentProcess& saver) {
    return sees(saver, "new=no busy=no still=yes save=no");
  }
};

}  // namespace compilecache::agent::testing
