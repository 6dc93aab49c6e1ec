#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "archive/extract/extract.hpp"
#include "archive/format.hpp"
#include "archive/write/write.hpp"
#include "store/directory/directory_store.hpp"
#include "store/registry/registry_store.hpp"

// What is measured of ours: one save or one load as a process of its own, with the settings of the
// agent, which cannot be asked to do so without an operator.
//
//   bench_registry_step save STORE TREE   prints the manifest's digest
//   bench_registry_step load STORE DIGEST TREE
//
// STORE is a folder, or https://HOST/REPOSITORY.

namespace compilecache::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRoot = "torch";
constexpr const char* kScheme = "https://";

struct Options {
  std::string store;
  std::string tree;
  std::string digest;
  std::string ca;
  std::string spool = "/tmp";
};

template <typename T>
T good(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

std::unique_ptr<store::Store> open_store(const Options& options) {
  if (!options.store.starts_with(kScheme))
    return std::make_unique<store::DirectoryStore>(options.store);
  const std::string name = options.store.substr(std::string(kScheme).size());
  const size_t slash = name.find('/');
  if (slash == std::string::npos) throw std::runtime_error(options.store + " has no repository");
  store::RegistryOptions registry;
  registry.host = name.substr(0, slash);
  registry.repository = name.substr(slash + 1);
  registry.ca_file = options.ca;
  registry.system_authorities = false;
  registry.spool_folder = options.spool;
  return std::make_unique<store::RegistryStore>(std::move(registry));
}

void prepare(const Options& options) {
  good(open_store(options)->upkeep()->prepare({"bench", "bench", "bench"}, false));
}

void save(const Options& options) {
  const auto store = open_store(options);
  archive::WriteRequest request;
  for (const auto& entry : fs::recursive_directory_iterator(options.tree)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path();
    request.files.push_back(
        {path, std::string(kRoot) + "/" + path.substr(options.tree.size() + 1)});
  }
  request.annotations = {{archive::kAnnotationName, "bench"},
                         {archive::kAnnotationGeneration, "1"}};
  const auto written = good(archive::write_archive(*store, std::move(request)));
  if (!written.left_out.empty()) throw std::runtime_error("left out " + written.left_out[0].path);
  std::cout << written.archive.manifest << "\n";
}

void load(const Options& options) {
  const auto store = open_store(options);
  archive::ExtractOptions extract;
  extract.roots = {{kRoot, options.tree}};
  good(archive::extract(*store, options.digest, extract));
}

}  // namespace
}  // namespace compilecache::bench

int main(int argc, char** argv) {
  using namespace compilecache::bench;
  Options options;
  CLI::App app("One save or load of a benchmark");
  app.require_subcommand(1);
  app.add_option("--ca", options.ca, "Who signed the registry's certificate");
  app.add_option("--spool", options.spool, "Where a save keeps what it will push");
  CLI::App* const preparing = app.add_subcommand("prepare", "Makes a folder a store");
  preparing->add_option("store", options.store)->required();
  CLI::App* const saving = app.add_subcommand("save", "Prints the manifest's digest");
  saving->add_option("store", options.store)->required();
  saving->add_option("tree", options.tree)->required();
  CLI::App* const loading = app.add_subcommand("load", "Makes the tree");
  loading->add_option("store", options.store)->required();
  loading->add_option("digest", options.digest)->required();
  loading->add_option("tree", options.tree)->required();
  CLI11_PARSE(app, argc, argv);
  try {
    if (preparing->parsed()) prepare(options);
    if (saving->parsed()) save(options);
    if (loading->parsed()) load(options);
  } catch (const std::exception& problem) {
    std::cerr << "bench_registry_step: " << problem.what() << "\n";
    return 1;
  }
  return 0;
}
