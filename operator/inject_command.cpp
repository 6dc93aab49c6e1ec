#include "operator/inject_command.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "operator/inject_manifests.hpp"
#include "operator/settings.hpp"
#include "operator/webhook_service.hpp"

namespace compilecache::controller {
namespace {

namespace fs = std::filesystem;

constexpr int kComplete = 0, kSkippedSome = 1, kUnreadable = 2;
constexpr char kReleaseImage[] = "docker.io/library/compilecache:" COMPILECACHE_VERSION;

Error unreadable(const std::string& path, const std::error_code& error) {
  return {ErrorCode::kIo, "reading " + path + ": " + error.message()};
}

Result<std::string> read_text(const std::string& path, std::istream& in) {
  std::stringstream text;
  if (path == "-") {
    text << in.rdbuf();
    return text.str();
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return unexpected(unreadable(path, {errno, std::generic_category()}));
  text << file.rdbuf();
  return text.str();
}

bool is_manifest(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".yaml" || ending == ".yml" || ending == ".json";
}

// A folder's manifests in the order of their names, so that the output is the same every time.
Result<std::vector<std::string>> expand(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path == "-" || !fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      if (is_manifest(entry->path()) && entry->is_regular_file()) found.push_back(entry->path());
    }
    if (error) return unexpected(unreadable(path, error));
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Result<std::vector<ManifestFile>> read_files(const std::vector<std::string>& paths,
                                             std::istream& in) {
  const auto names = expand(paths);
  if (!names) return unexpected(names.error());
  std::vector<ManifestFile> files;
  for (const std::string& name : *names) {
    const auto text = read_text(name, in);
    if (!text) return unexpected(text.error());
    auto documents = read_manifests(*text, name);
    if (!documents) return unexpected(documents.error());
    files.push_back({name, std::move(*documents)});
  }
  return files;
}

Result<webhook::InjectionSettings> read_settings(const InjectOptions& options) {
  auto settings = load_settings(options.settings);
  if (!settings) return unexpected(settings.error());
  if (!options.agent_address.empty()) settings->agent.address = options.agent_address;
  std::string image = options.image.empty() ? settings->agent_image : options.image;
  if (image.empty()) image = kReleaseImage;
  auto made = injection_settings(*settings, options.operator_namespace, image);
  if (!options.agent_ca_file.empty()) {
    auto ca = read_text(options.agent_ca_file, std::cin);
    if (!ca) return unexpected(ca.error());
    made.agent_ca = std::move(*ca);
  }
  return made;
}

Result<InjectedManifests> injected(const InjectOptions& options, std::istream& in) {
  ManifestInput input;
  input.ns = options.ns;
  auto settings = read_settings(options);
  if (!settings) return unexpected(settings.error());
  input.settings = std::move(*settings);
  auto files = read_files(options.files, in);
  if (!files) return unexpected(files.error());
  input.files = std::move(*files);
  auto caches = read_files(options.caches, in);
  if (!caches) return unexpected(caches.error());
  input.caches = std::move(*caches);
  return inject_manifests(input);
}

}  // namespace

int run_inject(const InjectOptions& options, std::istream& in, std::ostream& out,
               std::ostream& reports) {
  const auto result = injected(options, in);
  if (!result) {
    reports << "compilecache-operator inject: " << result.error().message << "\n";
    return kUnreadable;
  }
  const char* separator = "";
  for (const Manifest& document : result->documents) {
    out << std::exchange(separator, "---\n") << write_manifest(document);
  }
  for (const TemplateReport& report : result->reports) reports << text_of(report);
  if (result->reports.empty()) {
    reports << "compilecache-operator inject: no pod template has the annotation "
               "compilecache.dev/cache\n";
  }
  return result->complete() ? kComplete : kSkippedSome;
}

}  // namespace compilecache::controller
