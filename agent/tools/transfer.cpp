#include "archive/transfer.hpp"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "agent/index_lookup.hpp"
#include "agent/tools/inspect.hpp"
#include "archive/format.hpp"
#include "archive/index.hpp"
#include "archive/store.hpp"
#include "base/printable.hpp"
#include "base/quantity.hpp"

namespace compilecache::agent {
namespace {

using nlohmann::json;

Result<archive::IndexEntry> find_archive(const std::string& store, const std::string& wanted) {
  const auto index = archive::read_index(store);
  for (const auto& entry : index.entries) {
    if (entry.name() == wanted || entry.digest == wanted) return entry;
  }
  if (archive::is_digest(wanted)) return archive::IndexEntry{wanted, 0, {}};
  std::string why = "looking for archive " + wanted + " in " + store + ": ";
  why += index.problems.empty() ? "its index does not name it; `inspect` lists what is there"
                                : index.problems.front();
  return fail(ErrorCode::kNotFound, why);
}

int report_failure(const Error& error, bool as_json) {
  if (as_json)
    std::printf(
        "%s\n",
        json{{"error", error.message}}.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  std::fprintf(stderr, "%s\n", printable(error.message).c_str());
  return 1;
}

// An empty or missing folder becomes a store, owned by nobody; any other has to be a store already.
Status prepare_for_import(const std::string& store) {
  std::error_code ignored;
  const auto path = std::filesystem::absolute(store, ignored);
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_empty(path, ignored)) {
    const auto owner = archive::read_store_owner(store);
    return owner ? Status{} : unexpected(owner.error());
  }
  // Whoever names it knows where the links on the way lead.
  const auto parent = std::filesystem::weakly_canonical(path.parent_path(), ignored);
  const auto prepared = archive::prepare_store(parent / path.filename(), {}, false);
  return prepared ? Status{} : unexpected(prepared.error());
}

}  // namespace

int run_export(const std::string& store, const std::string& wanted, const std::string& file,
               bool image, bool as_json) {
  const auto entry = find_archive(store, wanted);
  if (!entry) return report_failure(entry.error(), as_json);
  archive::ExportOptions options{entry->name(), image, architecture()};
  const auto exported = archive::export_archive(store, entry->digest, file, options);
  if (!exported) return report_failure(exported.error(), as_json);
  if (as_json) {
    const json object{{"file", file},
                      {"name", exported->name},
                      {"digest", exported->digest},
                      {"archive", entry->digest},
                      {"image", image},
                      {"bytes", exported->bytes}};
    std::printf("%s\n", object.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s: %s %s, %s\n", file.c_str(), image ? "image" : "archive",
                exported->digest.c_str(), format_bytes(exported->bytes).c_str());
  }
  return 0;
}

int run_import(const std::string& store, const std::string& file, const std::string& name,
               bool as_json) {
  if (const auto prepared = prepare_for_import(store); !prepared)
    return report_failure(prepared.error().with("importing into " + store), as_json);
  const auto imported = archive::import_archive(store, file, {name});
  if (!imported) return report_failure(imported.error(), as_json);
  if (as_json) {
    const json object{{"store", store},
                      {"name", imported->name},
                      {"generation", imported->generation},
                      {"digest", imported->archive.manifest},
                      {"files", imported->archive.files},
                      {"existed", imported->existed}};
    std::printf("%s\n", object.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  } else {
    std::printf(
        "%s %s generation %lu: %s, %lu files\n", imported->existed ? "already there:" : "imported",
        printable(imported->name).c_str(), static_cast<unsigned long>(imported->generation),
        imported->archive.manifest.c_str(), static_cast<unsigned long>(imported->archive.files));
  }
  return 0;
}

}  // namespace compilecache::agent
