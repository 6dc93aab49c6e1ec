#include "cli/archives/sign_command.hpp"

#include <ostream>

#include "base/printable.hpp"
#include "cli/archives/archive_signer.hpp"
#include "cli/text/complaint.hpp"

namespace compilecache::cli {
namespace {

// The digest that was signed, and where.
Result<std::string> sign_one(const Cluster& cluster, const std::string& text,
                             const ArchiveSigner& signer, const RegistryLogin& login) {
  const auto name = parse_archive_name(text);
  if (!name) return unexpected(name.error());
  const auto archive = read_archive(cluster, *name);
  if (!archive) return unexpected(archive.error());
  if (!archive->head.exists())
    return fail(ErrorCode::kNotFound, "nothing was saved yet as " + archive->metadata.name);
  const auto cache = read_cache(cluster, archive->cache);
  if (!cache) return unexpected(cache.error());
  const auto registry = users_registry_of(*cache);
  if (!registry) return unexpected(registry.error());
  const auto store = open_users_registry(*registry, login);
  if (!store) return unexpected(store.error());
  const std::string& digest = archive->head.manifest_digest;
  if (auto done = signer.sign(**store, digest); !done) return unexpected(done.error());
  return (*store)->describe() + "@" + digest;
}

}  // namespace

int run_sign(const SignOptions& options, std::ostream& out, std::ostream& errors) {
  const auto refuse = [&](const Error& error) { return complain(error, errors); };
  const auto signer = ArchiveSigner::of_file(options.key);
  if (!signer) return refuse(signer.error());
  const auto cluster = connect(options.cluster);
  if (!cluster) return refuse(cluster.error());
  int status = 0;
  for (const std::string& archive : options.archives) {
    const auto done = sign_one(*cluster, archive, *signer, options.login);
    if (done) {
      out << printable(archive) << ": signed " << *done << "\n";
    } else {
      status = refuse(done.error());
    }
  }
  return status;
}

}  // namespace compilecache::cli
