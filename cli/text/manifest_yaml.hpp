#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"

// Kubernetes manifests as text: YAML of one or more documents, or JSON.
//
//   auto documents = read_manifests(text, "web.yaml");
//   if (!documents) return unexpected(documents.error());
//   for (const auto& document : *documents) std::cout << "---\n" << write_manifest(document);
//
// Keys keep their order; comments are lost. Pure; safe from any thread.

namespace compilecache::cli {

using Manifest = nlohmann::ordered_json;

// Plain scalars get the types that kubectl gives them (sigs.k8s.io/yaml, which is YAML 1.1): `yes`
// is true and 0644 is 420. Empty documents are left out. kInvalid naming `file_name` and, for YAML,
// the line.
Result<std::vector<Manifest>> read_manifests(const std::string& text, const std::string& file_name);

// One document of YAML, with a newline at the end and without "---". Texts that could be read as
// another type are quoted, so that read_manifests() gives the same value back.
std::string write_manifest(const Manifest& manifest);

}  // namespace compilecache::cli
