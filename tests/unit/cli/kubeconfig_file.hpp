#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace compilecache::cli {

// A kubeconfig whose only context, "here", leads to that API server and the namespace "ml". The
// file is removed with the object.
class KubeconfigFile {
 public:
  explicit KubeconfigFile(const std::string& url) {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("kubeconfig-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
    const nlohmann::json config = {
        {"apiVersion", "v1"},
        {"kind", "Config"},
        {"current-context", "here"},
        {"clusters", {{{"name", "here"}, {"cluster", {{"server", url}}}}}},
        {"contexts",
         {{{"name", "here"},
           {"context", {{"cluster", "here"}, {"user", "me"}, {"namespace", "ml"}}}}}},
        {"users", {{{"name", "me"}, {"user", nlohmann::json::object()}}}}};
    std::ofstream(path_) << config.dump();
  }
  ~KubeconfigFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  KubeconfigFile(const KubeconfigFile&) = delete;
  KubeconfigFile& operator=(const KubeconfigFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace compilecache::cli
