#include "agent/tools/inspect.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "archive/extract/extract.hpp"
#include "archive/format.hpp"
#include "archive/manifest.hpp"
#include "base/printable.hpp"
#include "base/quantity.hpp"
#include "store/offline_index.hpp"
#include "store/upkeep.hpp"

namespace compilecache::agent {
namespace {

using nlohmann::json;

// How much of each layer's content the archive still refers to.
std::vector<uint64_t> used_bytes(const archive::Config& config) {
  std::vector<uint64_t> used(config.layers.size());
  std::set<std::pair<uint32_t, std::string_view>> counted;
  for (const auto& file : config.files) {
    if (counted.emplace(file.layer, file.stored_as()).second) used[file.layer] += file.size;
  }
  return used;
}

json describe_layers(const archive::Manifest& manifest, const archive::Config& config) {
  const auto used = used_bytes(config);
  json layers = json::array();
  for (size_t i = 0; i < manifest.layers.size(); ++i) {
    layers.push_back({{"digest", manifest.layers[i].digest},
                      {"compressedBytes", manifest.layers[i].size},
                      {"contentBytes", config.layers[i].content_bytes},
                      {"usedBytes", used[i]}});
  }
  return layers;
}

// The bytes that the archives of a store need, each blob counted once.
class Blobs {
 public:
  void add(const std::string& digest, uint64_t bytes) {
    auto& blob = blobs_[digest];
    blob.bytes = bytes;
    ++blob.archives;
  }
  [[nodiscard]] bool has(const std::string& digest) const { return blobs_.contains(digest); }
  [[nodiscard]] uint64_t stored() const {
    uint64_t sum = 0;
    for (const auto& [digest, blob] : blobs_) sum += blob.bytes;
    return sum;
  }
  // The additional bytes if each archive had its own.
  [[nodiscard]] uint64_t shared() const {
    uint64_t sum = 0;
    for (const auto& [digest, blob] : blobs_) sum += blob.bytes * (blob.archives - 1);
    return sum;
  }

 private:
  struct Blob {
    uint64_t bytes = 0, archives = 0;
  };
  std::map<std::string, Blob> blobs_;
};

json describe_entry(const store::Store& store, const store::IndexEntry& entry, Blobs& blobs) {
  json object{{"name", entry.name()},
              {"generation", entry.generation()},
              {"digest", entry.digest},
              {"annotations", entry.annotations}};
  const auto manifest = archive::read_manifest(store, entry.digest);
  if (!manifest) {
    object["error"] = manifest.error().message;
    return object;
  }
  const auto config = archive::read_config(store, *manifest);
  if (!config) {
    object["error"] = config.error().message;
    return object;
  }
  const auto info = archive::describe(*manifest, *config);
  object["files"] = info.files;
  object["layers"] = describe_layers(*manifest, *config);
  object["compressedBytes"] = info.compressed_bytes;
  object["plainBytes"] = info.plain_bytes;
  blobs.add(entry.digest, manifest->size);
  blobs.add(manifest->config.digest, manifest->config.size);
  for (const auto& layer : manifest->layers) blobs.add(layer.digest, layer.size);
  return object;
}

std::string annotation(const json& archive, const std::string& name) {
  return archive["annotations"].value(name, "-");
}

std::string product_of(const json& archive) {
  return annotation(archive, std::string(archive::kAnnotationKeyPrefix) + "GPUProduct");
}

// By GPU product: how many archives and how large.
json describe_products(const json& archives) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> sums;
  for (const auto& archive : archives) {
    auto& [count, bytes] = sums[product_of(archive)];
    ++count;
    bytes += archive.value("compressedBytes", uint64_t{0});
  }
  json products = json::object();
  for (const auto& [product, sum] : sums)
    products[product] = {{"archives", sum.first}, {"compressedBytes", sum.second}};
  return products;
}

void describe_owner(const store::Upkeep& upkeep, json& object) {
  if (const auto owner = upkeep.owner()) {
    object["owner"] = {{"cluster", owner->cluster},
                       {"namespace", owner->ns},
                       {"compileCache", owner->compile_cache}};
  } else {
    object["problems"].push_back(owner.error().message);
  }
}

void describe_unreferenced(const store::Upkeep& upkeep, const Blobs& blobs, json& object) {
  uint64_t unreferenced = 0;
  if (const auto all = upkeep.list()) {
    for (const auto& blob : *all)
      unreferenced += blob.kept || blobs.has(blob.digest) ? 0 : blob.size;
  } else {
    object["problems"].push_back(all.error().message);
  }
  object["unreferencedBytes"] = unreferenced;
}

json describe_store(store::Store& store) {
  json object{
      {"store", store.describe()}, {"archives", json::array()}, {"problems", json::array()}};
  const store::Upkeep* upkeep = store.upkeep();
  if (upkeep != nullptr) describe_owner(*upkeep, object);
  const auto read = store::read_index(store);
  if (!read) object["problems"].push_back(read.error().message);
  const store::Index index = read.value_or(store::Index());
  for (const auto& problem : index.problems) object["problems"].push_back(problem);
  Blobs blobs;
  for (const auto& entry : index.entries) {
    object["archives"].push_back(describe_entry(store, entry, blobs));
  }
  object["products"] = describe_products(object["archives"]);
  object["storedBytes"] = blobs.stored();
  object["sharedBytes"] = blobs.shared();
  if (upkeep != nullptr) describe_unreferenced(*upkeep, blobs, object);
  return object;
}

std::string bytes(const json& count) { return format_bytes(count.get<uint64_t>()); }
std::string shown(const json& value) { return printable(value.get_ref<const std::string&>()); }
// Names are strangers' and need not be UTF-8.
std::string json_text(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

void print_archive(const json& archive) {
  std::printf("%-32s %4lu  %-28s ", shown(archive["name"]).c_str(),
              archive["generation"].get<unsigned long>(), printable(product_of(archive)).c_str());
  if (archive.contains("error")) {
    std::printf("%s\n", shown(archive["error"]).c_str());
    return;
  }
  std::printf("%6lu files  %8s stored  %8s plain  %s\n", archive["files"].get<unsigned long>(),
              bytes(archive["compressedBytes"]).c_str(), bytes(archive["plainBytes"]).c_str(),
              printable(annotation(archive, archive::kAnnotationSavedAt)).c_str());
  for (const auto& layer : archive["layers"]) {
    std::printf("  layer %.19s…  %8s stored, %8s of files, %8s in use\n",
                shown(layer["digest"]).c_str(), bytes(layer["compressedBytes"]).c_str(),
                bytes(layer["contentBytes"]).c_str(), bytes(layer["usedBytes"]).c_str());
  }
}

void print_store(const json& found) {
  if (found.contains("owner") && found["owner"]["compileCache"] != "") {
    std::printf("store %s of CompileCache %s in namespace %s\n\n", shown(found["store"]).c_str(),
                shown(found["owner"]["compileCache"]).c_str(),
                shown(found["owner"]["namespace"]).c_str());
  } else if (found.contains("owner")) {
    std::printf("store %s, made by hand\n\n", shown(found["store"]).c_str());
  }
  for (const auto& archive : found["archives"]) print_archive(archive);
  if (found["archives"].empty())
    std::printf("%s holds no archive\n", shown(found["store"]).c_str());
  std::printf("\n");
  for (const auto& [product, sums] : found["products"].items()) {
    std::printf("product %-28s %3d archives  %8s\n", printable(product).c_str(),
                sums["archives"].get<int>(), bytes(sums["compressedBytes"]).c_str());
  }
  std::printf("%s stored; %s more without sharing", bytes(found["storedBytes"]).c_str(),
              bytes(found["sharedBytes"]).c_str());
  if (found.contains("unreferencedBytes")) {
    std::printf("; %s that no archive of the index needs",
                bytes(found["unreferencedBytes"]).c_str());
  }
  std::printf("\n");
  for (const auto& problem : found["problems"])
    std::printf("problem: %s\n", shown(problem).c_str());
}

json verify_one(const store::Store& store, const store::IndexEntry& entry) {
  const auto verified = archive::verify(store, entry.digest);
  json object{{"name", entry.name()}, {"digest", entry.digest}, {"whole", verified.has_value()}};
  if (verified) {
    object["files"] = verified->files;
    object["plainBytes"] = verified->plain_bytes;
  } else {
    object["error"] = verified.error().message;
  }
  return object;
}

void print_verified(const json& result) {
  if (result["whole"].get<bool>()) {
    std::printf("whole   %s %s, %lu files\n", shown(result["digest"]).c_str(),
                shown(result["name"]).c_str(), result["files"].get<unsigned long>());
  } else {
    std::printf("CORRUPT %s\n", shown(result["error"]).c_str());
  }
}

// Those of the index that are wanted, and digests that it does not name; `missing` gets the rest.
std::vector<store::IndexEntry> wanted_entries(const store::Index& index,
                                              const std::vector<std::string>& wanted,
                                              std::vector<std::string>& missing) {
  if (wanted.empty()) return index.entries;
  std::vector<store::IndexEntry> entries;
  for (const std::string& one : wanted) {
    const auto found =
        std::find_if(index.entries.begin(), index.entries.end(),
                     [&](const auto& entry) { return entry.name() == one || entry.digest == one; });
    if (found != index.entries.end()) {
      entries.push_back(*found);
    } else if (archive::is_digest(one)) {
      entries.push_back({one, 0, {}});
    } else {
      missing.push_back(one);
    }
  }
  return entries;
}

}  // namespace

int run_inspect(store::Store& store, bool as_json) {
  const json found = describe_store(store);
  if (as_json) {
    std::printf("%s\n", json_text(found).c_str());
  } else {
    print_store(found);
  }
  const json& archives = found["archives"];
  const bool all_read = std::none_of(archives.begin(), archives.end(),
                                     [](const json& each) { return each.contains("error"); });
  return found["problems"].empty() && all_read ? 0 : 1;
}

int run_verify(store::Store& store, const std::vector<std::string>& wanted, bool as_json) {
  const std::string where = store.describe();
  const auto read = store::read_index(store);
  const store::Index index = read ? *read : store::Index{{}, {read.error().message}};
  std::vector<std::string> missing;
  const auto entries = wanted_entries(index, wanted, missing);
  json results = json::array();
  bool whole = index.problems.empty() && missing.empty();
  for (const auto& entry : entries) {
    results.push_back(verify_one(store, entry));
    whole = whole && results.back()["whole"].get<bool>();
    if (!as_json) print_verified(results.back());
  }
  if (as_json) {
    std::printf("%s\n", json_text(results).c_str());
    return whole ? 0 : 1;
  }
  for (const auto& problem : index.problems)
    std::printf("problem: %s\n", printable(problem).c_str());
  if (entries.empty() && wanted.empty()) std::printf("%s holds no archive\n", where.c_str());
  for (const auto& name : missing)
    std::printf("%s holds no archive %s; `inspect %s` lists them\n", where.c_str(), name.c_str(),
                where.c_str());
  return whole ? 0 : 1;
}

}  // namespace compilecache::agent
