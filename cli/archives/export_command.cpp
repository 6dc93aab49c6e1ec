#include "cli/archives/export_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/printable.hpp"
#include "base/quantity.hpp"
#include "store/access/transfer.hpp"

namespace compilecache::cli {
namespace {

Result<store::ExportReport> export_one(const ExportCommandOptions& options) {
  const auto name = parse_archive_name(options.archive);
  if (!name) return unexpected(name.error());
  const auto cluster = connect(options.cluster);
  if (!cluster) return unexpected(cluster.error());
  const auto archive = read_archive(*cluster, *name);
  if (!archive) return unexpected(archive.error());
  if (!archive->head.exists()) {
    return fail(ErrorCode::kNotFound, "nothing was saved yet as " + archive->metadata.name);
  }
  const auto cache = read_cache(*cluster, archive->cache);
  if (!cache) return unexpected(cache.error());
  const auto registry = users_registry_of(*cache);
  if (!registry) return unexpected(registry.error());
  const auto store = open_users_registry(*registry, options.login);
  if (!store) return unexpected(store.error());
  const auto part = archive->key.find("Architecture");
  const std::string architecture = part == archive->key.end() ? "amd64" : part->second;
  return store::export_archive(**store, archive->head.manifest_digest, options.file,
                               {archive->metadata.name, options.image, architecture});
}

}  // namespace

int run_export(const ExportCommandOptions& options, std::ostream& out, std::ostream& errors) {
  const auto exported = export_one(options);
  if (!exported) {
    errors << "kubectl compilecache export: " << printable(exported.error().message) << "\n";
    return 1;
  }
  out << options.file << ": " << (options.image ? "image " : "archive ") << exported->digest << ", "
      << format_bytes(exported->bytes) << "\n";
  return 0;
}

}  // namespace compilecache::cli
