// The examples in the headers of cli/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/cache_overview.hpp"
#include "cli/cluster.hpp"
#include "cli/inject_manifests.hpp"
#include "cli/manifest_yaml.hpp"
#include "cli/page.hpp"
#include "cli/pod_story.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::cli::examples {

inline size_t inject(const std::vector<ManifestFile>& files,
                     const webhook::InjectionSettings& settings) {
  size_t count = 0;
  auto injected = inject_manifests({.files = files, .ns = "default", .settings = settings});
  for (const auto& document : injected->documents) count += document.size();
  for (const TemplateReport& report : injected->reports) count += report.file.size();
  return count;
}

inline Status yaml(const std::string& text) {
  auto documents = read_manifests(text, "web.yaml");
  if (!documents) return unexpected(documents.error());
  for (const auto& document : *documents) std::cout << "---\n" << write_manifest(document);
  return {};
}

inline void story(const PodFacts& facts) {
  PodStory story = tell_story(facts);
  std::cout << text_of(story);
  std::cout << json_of(story).dump(2);
}

inline void overview(const api::CompileCache& cache,
                     const std::vector<api::CompileCacheArchive>& archives) {
  CacheOverview overview = overview_of(cache, archives);
  std::cout << text_of(overview);
  std::cout << json_of(overview).dump(2);
}

inline Status archives() {
  const auto cluster = connect({.ns = "ml"});
  if (!cluster) return unexpected(cluster.error());
  auto archives = read_archives(*cluster, "llama");
  return archives ? Status() : unexpected(archives.error());
}

inline std::string page() {
  Page page;
  page.line("pod", "ml/web-1 on node gpu-7");
  page.table({{"NAME", "GPU"}, {"llama-1", "H100"}});
  std::string text = page.take();
  return text;
}

}  // namespace compilecache::cli::examples

#pragma GCC diagnostic pop
