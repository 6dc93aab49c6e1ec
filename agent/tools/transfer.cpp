#include "store/access/transfer.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "agent/index_lookup.hpp"
#include "agent/tools/inspect.hpp"
#include "archive/format.hpp"
#include "archive/oci/oci_archive.hpp"
#include "base/printable.hpp"
#include "base/quantity.hpp"
#include "store/access/open.hpp"
#include "store/offline_index.hpp"

namespace compilecache::agent {
namespace {

using nlohmann::json;

Result<store::IndexEntry> find_archive(store::Store& store, const std::string& wanted) {
  const auto index = store::read_index(store);
  if (!index) return unexpected(index.error());
  for (const auto& entry : index->entries) {
    if (entry.name() == wanted || entry.digest == wanted) return entry;
  }
  if (archive::is_digest(wanted)) return store::IndexEntry{wanted, 0, {}};
  std::string why = "looking for archive " + wanted + " in " + store.describe() + ": ";
  why += index->problems.empty() ? "its index does not name it; `inspect` lists what is there"
                                 : index->problems.front();
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

}  // namespace

int run_export(store::Store& store, const std::string& wanted, const std::string& file, bool image,
               bool as_json) {
  const auto entry = find_archive(store, wanted);
  if (!entry) return report_failure(entry.error(), as_json);
  store::ExportOptions options{entry->name(), image, architecture()};
  const auto exported = store::export_archive(store, entry->digest, file, options);
  if (!exported)
    return report_failure(exported.error(), as_json && file != archive::kStandardStream);
  if (file == archive::kStandardStream) return 0;
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

int run_import(const std::string& path, const std::string& file, const std::string& name,
               bool as_json) {
  const auto store = store::open_or_make_store(path);
  if (!store) return report_failure(store.error().with("importing into " + path), as_json);
  const auto imported = store::import_archive(**store, file, {name});
  if (!imported) return report_failure(imported.error(), as_json);
  if (as_json) {
    const json object{{"store", path},
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
