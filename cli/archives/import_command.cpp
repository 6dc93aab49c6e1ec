#include "cli/archives/import_command.hpp"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <system_error>

#include "api/store_ref.hpp"
#include "base/printable.hpp"
#include "base/random.hpp"
#include "cli/archives/archive_signer.hpp"
#include "cli/archives/copy_wait.hpp"
#include "store/access/copy.hpp"
#include "store/access/open.hpp"
#include "store/access/transfer.hpp"

namespace compilecache::cli {
namespace {

// A folder of this machine's, gone with the object.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create() {
    std::error_code failed;
    const auto parent = std::filesystem::temp_directory_path(failed);
    std::string pattern = ((failed ? "/tmp" : parent) / "compilecache-import.XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      return fail(ErrorCode::kIo, "making a folder like " + pattern + " (TMPDIR names its place)");
    }
    return ScratchFolder(std::move(pattern));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// A CompileCache that is never made, whose store in that registry is what is pushed and copied.
Result<api::CompileCache> inbox_of(const api::CompileCache& cache, const StoreChoice& via) {
  api::CompileCache inbox;
  inbox.metadata.ns = cache.metadata.ns;
  inbox.metadata.name =
      cache.metadata.name.substr(0, 40) + "-import-" + random_id(system_random()).substr(0, 8);
  inbox.spec.storage.emplace();
  if (!via.repository.empty()) {
    inbox.spec.storage->registry = {via.repository, via.secret, via.ca_config_map};
  } else if (cache.spec.storage && cache.spec.storage->registry) {
    inbox.spec.storage->registry = cache.spec.storage->registry;
  } else {
    return fail(ErrorCode::kInvalid,
                "CompileCache " + cache.metadata.name +
                    " does not keep its archives in a registry of yours: name one that both you "
                    "and the cluster reach with --via");
  }
  return inbox;
}

// What is wrong with the file is found out before anything is pushed. `signer`: null: nobody signs.
Result<std::string> push(const std::string& file, store::Store& into, const ArchiveSigner* signer) {
  const auto folder = ScratchFolder::create();
  if (!folder) return unexpected(folder.error());
  const auto scratch = store::open_or_make_store(folder->path());
  if (!scratch) return unexpected(scratch.error());
  const auto imported = store::import_archive(**scratch, file, {});
  if (!imported) return unexpected(imported.error());
  const auto copied = store::copy_archive(**scratch, into, imported->archive.manifest);
  if (!copied) return unexpected(copied.error());
  if (signer != nullptr) {
    if (auto done = signer->sign(into, imported->archive.manifest); !done)
      return unexpected(done.error());
  }
  return imported->name;
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
  const auto store = open_users_registry(*place->registry(), options.login);
  if (!store) return unexpected(store.error());
  const auto name = push(options.file, **store, signer ? &**signer : nullptr);
  if (!name) return unexpected(name.error());
  progress << "pushed " << printable(*name) << " to " << (*store)->describe() << "\n";
  const auto from = copy_from(*inbox);
  if (!from) return unexpected(from.error());
  const auto asked = ask_for_copy(*cluster, options.cache, *from);
  if (!asked) return unexpected(asked.error());
  return wait_for_copy(*cluster, options.cache, api::object_meta(*asked).generation,
                       std::chrono::seconds(options.timeout_seconds), progress);
}

}  // namespace

int run_import(const ImportCommandOptions& options, std::ostream& out, std::ostream& errors) {
  const auto imported = import_one(options, errors);
  if (!imported) {
    errors << "kubectl compilecache import: "
           << printable(imported.error().with("importing " + options.file).message) << "\n";
    return 1;
  }
  out << "CompileCache " << options.cache << ": " << printable(*imported) << "\n";
  return 0;
}

}  // namespace compilecache::cli
