#include "cli/archives/export_command.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/quantity.hpp"
#include "cli/archives/scratch_folder.hpp"
#include "cli/archives/tool_job.hpp"
#include "cli/archives/tool_run.hpp"
#include "cli/cluster/kubectl.hpp"
#include "cli/text/complaint.hpp"
#include "store/access/open.hpp"
#include "store/access/transfer.hpp"

namespace compilecache::cli {
namespace {

using store::Store;

constexpr char kStandardOutput[] = "-";

// The store of a file that came from the volume: a Job reads, and nothing of it is believed here
// that its digest does not promise.
Result<std::unique_ptr<Store>> fetch(const Cluster& cluster, const api::VolumeRef& volume,
                                     const std::string& digest, const ScratchFolder& scratch,
                                     const ExportCommandOptions& options, std::ostream& progress) {
  const auto tool = WaitingTool::start(
      cluster, {.volume = volume, .image = options.tool_image, .deadline = options.timeout},
      progress);
  if (!tool) return unexpected(tool.error());
  const std::string file = scratch.path() + "/archive.tar";
  const auto fetched =
      run_kubectl(options.cluster,
                  tool->exec({"compilecache-agent", "export", store_path(volume), digest, "-"}),
                  {.output = file});
  if (!fetched) return unexpected(fetched.error());
  auto store = store::open_or_make_store(scratch.path() + "/store");
  if (!store) return unexpected(store.error());
  // Under a name of here: an archive need not have one.
  if (auto imported = store::import_archive(**store, file, {"archive"}); !imported)
    return unexpected(imported.error());
  return store;
}

// In a folder of its own until it is whole: that goes with it when a signal ends the program.
Result<store::ExportReport> write_file(Store& store, const std::string& digest,
                                       const ExportCommandOptions& options,
                                       const store::ExportOptions& what, std::ostream& out) {
  const bool streams = options.file == kStandardOutput;
  const auto folder =
      streams ? ScratchFolder::create() : ScratchFolder::create_beside(options.file);
  if (!folder) return unexpected(folder.error());
  const auto name =
      streams ? "archive.tar" : std::filesystem::path(options.file).filename().string();
  const std::string made = folder->path() + "/" + name;
  auto report = store::export_archive(store, digest, made, what);
  if (!report) return report;
  if (streams) {
    std::ifstream whole(made, std::ios::binary);
    out << whole.rdbuf() << std::flush;
    if (!whole || !out) return fail(ErrorCode::kIo, "writing the archive to standard output");
    return report;
  }
  std::error_code failed;
  std::filesystem::rename(made, options.file, failed);
  if (failed) return fail(ErrorCode::kIo, "renaming " + made + ": " + failed.message());
  return report;
}

Result<store::ExportReport> export_one(const ExportCommandOptions& options, std::ostream& out,
                                       std::ostream& progress) {
  const auto name = parse_archive_name(options.archive);
  if (!name) return unexpected(name.error());
  if (options.file != kStandardOutput && std::filesystem::exists(options.file)) {
    return fail(ErrorCode::kConflict,
                options.file + " is there already; give another name, or remove it");
  }
  const auto cluster = connect(options.cluster);
  if (!cluster) return unexpected(cluster.error());
  const auto archive = read_archive(*cluster, *name);
  if (!archive) return unexpected(archive.error());
  if (!archive->head.exists()) {
    return fail(ErrorCode::kNotFound, "nothing was saved yet as " + archive->metadata.name);
  }
  const auto cache = read_cache(*cluster, archive->cache);
  if (!cache) return unexpected(cache.error());
  const auto scratch = ScratchFolder::create();
  if (!scratch) return unexpected(scratch.error());
  const std::string& digest = archive->head.manifest_digest;
  const auto place = api::store_of(*cache, {});
  const api::VolumeRef* volume = place ? place->volume() : nullptr;
  const auto registry = users_registry_of(*cache);
  if (volume == nullptr && !registry) return unexpected(registry.error());
  const auto store = volume != nullptr
                         ? fetch(*cluster, *volume, digest, *scratch, options, progress)
                         : open_users_registry(*registry, options.login);
  if (!store) return unexpected(store.error());
  const auto part = archive->key.find("Architecture");
  const std::string architecture = part == archive->key.end() ? "amd64" : part->second;
  return write_file(**store, digest, options, {archive->metadata.name, options.image, architecture},
                    out);
}

}  // namespace

int run_export(const ExportCommandOptions& options, std::ostream& out, std::ostream& errors) {
  const bool streams = options.file == kStandardOutput;
  if (streams && options.terminal) {
    return complain({ErrorCode::kInvalid,
                     "an archive is no text for a terminal: name a file with -f, or redirect the "
                     "output"},
                    errors, 2);
  }
  const auto exported = export_one(options, out, errors);
  if (!exported) return complain(exported.error(), errors);
  std::ostream& told = streams ? errors : out;
  told << (streams ? "standard output" : options.file) << ": "
       << (options.image ? "image " : "archive ") << exported->digest << ", "
       << format_bytes(exported->bytes) << "\n";
  return 0;
}

}  // namespace compilecache::cli
