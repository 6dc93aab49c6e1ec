#include "cli/archives/import_command.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "api/store_ref.hpp"
#include "base/printable.hpp"
#include "cli/archives/archive_signer.hpp"
#include "cli/archives/copy_wait.hpp"
#include "cli/archives/scratch_folder.hpp"
#include "cli/archives/tool_job.hpp"
#include "cli/archives/tool_run.hpp"
#include "cli/cluster/kubectl.hpp"
#include "cli/cluster/undo.hpp"
#include "cli/text/complaint.hpp"
#include "store/access/copy.hpp"
#include "store/access/open.hpp"
#include "store/access/transfer.hpp"

namespace compilecache::cli {
namespace {

// A CompileCache that is never created, whose store is filled and copied: a repository, or a
// folder in the CompileCache's own store on its volume, where savers may write.
Result<api::CompileCache> inbox_of(const api::CompileCache& cache, const StoreChoice& via) {
  const auto& storage = cache.spec.storage;
  api::CompileCache inbox;
  inbox.metadata.ns = cache.metadata.ns;
  inbox.metadata.name = inbox_name(cache.metadata.name);
  inbox.spec.storage.emplace();
  if (!via.repository.empty()) {
    inbox.spec.storage->registry = {via.repository, via.secret, via.ca_config_map};
  } else if (storage && storage->registry) {
    inbox.spec.storage->registry = storage->registry;
  } else if (storage && !storage->claim_name.empty()) {
    inbox.metadata.name = inbox_name("");
    inbox.spec.storage->claim_name = storage->claim_name;
    inbox.spec.storage->sub_path = api::store_of(cache, {})->volume()->path;
  } else {
    return fail(ErrorCode::kInvalid,
                "CompileCache " + cache.metadata.name +
                    " keeps its archives in the registry that was installed with the operator, "
                    "which is not reached from here: name one that both you and the cluster reach "
                    "with --via");
  }
  return inbox;
}

// A store in a folder of this machine's with the file's archive: what is wrong with the file is
// found out before anything leaves it.
struct Checked {
  ScratchFolder folder;
  std::unique_ptr<store::Store> store;
  store::ImportReport report;
};
Result<Checked> check(const std::string& file) {
  auto folder = ScratchFolder::create();
  if (!folder) return unexpected(folder.error());
  auto scratch = store::open_or_make_store(folder->path());
  if (!scratch) return unexpected(scratch.error());
  auto imported = store::import_archive(**scratch, file, {});
  if (!imported) return unexpected(imported.error());
  return Checked{std::move(*folder), std::move(*scratch), std::move(*imported)};
}

// `signer`: null: nobody signs.
Status push(const Checked& checked, store::Store& into, const ArchiveSigner* signer) {
  const std::string& digest = checked.report.archive.manifest;
  if (auto copied = store::copy_archive(*checked.store, into, digest); !copied)
    return unexpected(copied.error());
  if (signer != nullptr) {
    if (auto done = signer->sign(into, digest); !done) return unexpected(done.error());
  }
  return {};
}

// A Job that has put the file's archive into a folder on the volume, which goes with it.
Result<WaitingTool> fill(const Cluster& cluster, const api::VolumeRef& volume,
                         const ImportCommandOptions& options, std::ostream& progress) {
  const std::string path = store_path(volume);
  auto tool = WaitingTool::start(cluster,
                                 {.volume = volume,
                                  .image = options.tool_image,
                                  .deadline = 2 * options.timeout,
                                  .writes = true,
                                  .clears = path},
                                 progress);
  if (!tool) return unexpected(tool.error());
  const auto put =
      run_kubectl(options.cluster, tool->exec({"compilecache-agent", "import", path, "-"}),
                  {.input = options.file});
  if (!put) return unexpected(put.error());
  return tool;
}

Result<std::string> have_it_copied(const Cluster& cluster, const ImportCommandOptions& options,
                                   const api::CompileCache& inbox, BorrowedCopyFrom& borrowed,
                                   std::ostream& progress) {
  const auto from = copy_from(inbox);
  if (!from) return unexpected(from.error());
  const auto asked = borrowed.ask(*from);
  if (!asked) return unexpected(asked.error());
  return wait_for_copy(cluster, options.cache, api::object_meta(*asked).generation, options.timeout,
                       progress);
}

Result<std::string> by_registry(const Cluster& cluster, const ImportCommandOptions& options,
                                const api::CompileCache& inbox, const api::RegistryRef& place,
                                const ArchiveSigner* signer, std::ostream& progress) {
  const auto store = open_users_registry(place, options.login);
  if (!store) return unexpected(store.error());
  const auto checked = check(options.file);
  if (!checked) return unexpected(checked.error());
  if (auto pushed = push(*checked, **store, signer); !pushed) return unexpected(pushed.error());
  progress << "pushed " << printable(checked->report.name) << " to " << (*store)->describe()
           << "\n";
  BorrowedCopyFrom borrowed(cluster, options.cache, inbox.metadata.name);
  const Undo undo([&] { borrowed.give_back(); });
  auto copied = have_it_copied(cluster, options, inbox, borrowed, progress);
  // The user's own value comes first. Without it the operator may go on.
  if (borrowed.was_set()) {
    borrowed.give_back();
    return copied;
  }
  if (!copied) return unexpected(still_copying(copied.error(), cluster, options.cache));
  return copied;
}

Result<std::string> by_volume(const Cluster& cluster, const ImportCommandOptions& options,
                              const api::CompileCache& inbox, const api::VolumeRef& place,
                              std::ostream& progress) {
  if (!options.key.empty()) {
    return fail(ErrorCode::kInvalid,
                "a volume has no place for signatures: leave --key out, or name a registry of "
                "yours with --via");
  }
  if (auto checked = check(options.file); !checked) return unexpected(checked.error());
  const auto there = fill(cluster, place, options, progress);
  if (!there) return unexpected(there.error());
  progress << "put it on the volume of claim " << place.claim << "\n";
  // The folder goes, so nothing may go on with it.
  BorrowedCopyFrom borrowed(cluster, options.cache, inbox.metadata.name);
  const Undo undo([&] { borrowed.give_back(); });
  auto copied = have_it_copied(cluster, options, inbox, borrowed, progress);
  if (!copied || borrowed.was_set()) borrowed.give_back();
  // So that it is deleted when this returns; the Job would do it a little later.
  (void)run_kubectl(options.cluster, there->exec({"rm", "-rf", store_path(place)}), {});
  return copied;
}

Result<std::string> import_one(const ImportCommandOptions& options, std::ostream& progress) {
  std::optional<Result<ArchiveSigner>> signer;
  if (!options.key.empty()) signer = ArchiveSigner::of_file(options.key);
  if (signer && !*signer) return unexpected(signer->error());
  const auto cluster = connect(options.cluster);
  if (!cluster) return unexpected(cluster.error());
  const auto cache = read_cache(*cluster, options.cache);
  if (!cache) return unexpected(cache.error());
  const auto inbox = inbox_of(*cache, options.via);
  if (!inbox) return unexpected(inbox.error());
  const auto place = api::store_of(*inbox, {});
  if (!place) {
    return fail(ErrorCode::kInvalid, "--via " + options.via.repository +
                                         " is no repository, as harbor.example.com/ml/inbox is");
  }
  if (const auto* volume = place->volume())
    return by_volume(*cluster, options, *inbox, *volume, progress);
  return by_registry(*cluster, options, *inbox, *place->registry(), signer ? &**signer : nullptr,
                     progress);
}

}  // namespace

int run_import(const ImportCommandOptions& options, std::ostream& out, std::ostream& errors) {
  const auto imported = import_one(options, errors);
  if (!imported) return complain(imported.error(), errors);
  out << "CompileCache " << options.cache << ": " << printable(*imported) << "\n";
  return 0;
}

}  // namespace compilecache::cli
