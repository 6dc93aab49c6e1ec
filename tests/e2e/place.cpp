#include "tests/e2e/place.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

namespace compilecache::e2e {
namespace {

namespace fs = std::filesystem;

std::string registry_files() {
  const char* kind = std::getenv("CC_E2E_STORE");
  if (kind == nullptr || std::string_view(kind) != "registry") return "";
  const char* volumes = std::getenv("CC_VOLUMES");
  return std::string(volumes == nullptr ? "/var/tmp/compilecache-e2e" : volumes) +
         "/registry/docker/registry/v2";
}

}  // namespace

Place::Place(std::string ns, std::string volume)
    : ns_(std::move(ns)), volume_(std::move(volume)), registry_(registry_files()) {}

nlohmann::json Place::storage() const {
  return in_registry() ? nlohmann::json::object() : nlohmann::json{{"claimName", "caches"}};
}

std::string Place::blob(const std::string& cache, const std::string& digest) const {
  const std::string hex = digest.substr(digest.find(':') + 1);
  if (!in_registry()) return volume_ + "/" + cache + "/blobs/sha256/" + hex;
  return registry_ + "/blobs/sha256/" + hex.substr(0, 2) + "/" + hex + "/data";
}

std::set<std::string> Place::blobs(const std::string& cache) const {
  std::set<std::string> all;
  std::error_code error;
  if (!in_registry()) {
    const fs::path folder = fs::path(volume_) / cache / "blobs/sha256";
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      all.insert("sha256:" + entry.path().filename().string());
    }
    return all;
  }
  const fs::path repository = fs::path(registry_) / "repositories" / ns_ / cache;
  for (const char* links : {"_layers/sha256", "_manifests/revisions/sha256"}) {
    for (const auto& entry : fs::directory_iterator(repository / links, error)) {
      const std::string digest = "sha256:" + entry.path().filename().string();
      if (fs::exists(entry.path() / "link") && fs::exists(blob(cache, digest))) all.insert(digest);
    }
  }
  return all;
}

std::set<std::string> Place::unfinished(const std::string& cache) const {
  const fs::path folder = in_registry()
                              ? fs::path(registry_) / "repositories" / ns_ / cache / "_uploads"
                              : fs::path(volume_) / cache / "blobs/sha256";
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (in_registry() || name.ends_with(".incomplete")) names.insert(name);
  }
  return names;
}

}  // namespace compilecache::e2e
