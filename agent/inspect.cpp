#include "agent/inspect.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "agent/index_lookup.hpp"
#include "archive/extract.hpp"
#include "archive/format.hpp"
#include "archive/manifest.hpp"
#include "archive/store.hpp"
#include "base/quantity.hpp"

namespace compilecache::agent {
namespace {

using nlohmann::json;

json describe_entry(const std::string& store, const archive::IndexEntry& entry) {
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
  object["layers"] = info.layers.size();
  object["compressedBytes"] = info.compressed_bytes;
  object["plainBytes"] = info.plain_bytes;
  return object;
}

json describe_store(const std::string& store) {
  json object{{"store", store}, {"archives", json::array()}, {"problems", json::array()}};
  if (const auto owner = archive::read_store_owner(store)) {
    object["owner"] = {{"cluster", owner->cluster},
                       {"namespace", owner->ns},
                       {"compileCache", owner->compile_cache}};
  } else {
    object["problems"].push_back(owner.error().message);
  }
  const auto index = archive::read_index(store);
  for (const auto& problem : index.problems) object["problems"].push_back(problem);
  for (const auto& entry : index.entries) {
    object["archives"].push_back(describe_entry(store, entry));
  }
  return object;
}

std::string annotation(const json& archive, const std::string& name) {
  return archive["annotations"].value(name, "-");
}

void print_archive(const json& archive) {
  std::printf(
      "%-32s %4lu  %-28s ", archive["name"].get<std::string>().c_str(),
      archive["generation"].get<unsigned long>(),
      annotation(archive, std::string(archive::kAnnotationKeyPrefix) + "GPUProduct").c_str());
  if (archive.contains("error")) {
    std::printf("%s\n", archive["error"].get<std::string>().c_str());
    return;
  }
  std::printf("%6lu files  %8s stored  %8s plain  %lu layers  %s\n",
              archive["files"].get<unsigned long>(),
              format_bytes(archive["compressedBytes"]).c_str(),
              format_bytes(archive["plainBytes"]).c_str(), archive["layers"].get<unsigned long>(),
              annotation(archive, archive::kAnnotationSavedAt).c_str());
}

json verify_one(const std::string& store, const std::string& digest) {
  const auto verified = archive::verify(store, digest);
  json object{{"digest", digest}, {"whole", verified.has_value()}};
  if (!verified) object["error"] = verified.error().message;
  return object;
}

}  // namespace

int run_inspect(const std::string& store, bool as_json) {
  const json found = describe_store(store);
  if (as_json) {
    std::printf("%s\n", found.dump(2).c_str());
  } else {
    for (const auto& archive : found["archives"]) print_archive(archive);
    if (found["archives"].empty()) std::printf("%s holds no archive\n", store.c_str());
    for (const auto& problem : found["problems"]) {
      std::printf("problem: %s\n", problem.get<std::string>().c_str());
    }
  }
  return 0;
}

int run_verify(const std::string& store, const std::string& digest, bool as_json) {
  std::vector<std::string> digests;
  if (!digest.empty()) {
    digests.push_back(digest);
  } else {
    for (const auto& entry : archive::read_index(store).entries) digests.push_back(entry.digest);
  }
  json results = json::array();
  bool whole = true;
  for (const auto& one : digests) {
    results.push_back(verify_one(store, one));
    whole = whole && results.back()["whole"].get<bool>();
    if (!as_json) {
      std::printf("%s %s\n", results.back()["whole"].get<bool>() ? "whole  " : "CORRUPT",
                  results.back().value("error", one).c_str());
    }
  }
  if (as_json) std::printf("%s\n", results.dump(2).c_str());
  if (!as_json && digests.empty()) std::printf("%s holds no archive\n", store.c_str());
  return whole ? 0 : 1;
}

}  // namespace compilecache::agent
