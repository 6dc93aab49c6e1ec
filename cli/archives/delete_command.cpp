#include "cli/archives/delete_command.hpp"

#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "cli/archives/archive_table.hpp"
#include "cli/cluster/plain_error.hpp"
#include "cli/text/complaint.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using Archives = std::vector<api::CompileCacheArchive>;

// With the CompileCache's name, so that nothing goes by a slip of the pen.
Result<Archives> find_all(const Cluster& cluster, const std::vector<std::string>& names) {
  Archives archives;
  for (const std::string& text : names) {
    const auto name = parse_archive_name(text);
    if (!name) return unexpected(name.error());
    auto archive = read_archive(cluster, *name);
    if (!archive) return unexpected(archive.error());
    archives.push_back(std::move(*archive));
  }
  return archives;
}

bool agreed(const DeleteOptions& options, const Archives& archives, std::istream& in,
            std::ostream& errors) {
  if (options.yes) return true;
  errors << table_of(archives, SystemClock::instance().wall(), false);
  if (!options.can_ask) {
    errors << "Nothing is deleted: nobody can be asked here; say --yes.\n";
    return false;
  }
  errors << "Delete " << (archives.size() == 1 ? "this archive" : "these archives")
         << "? Pods of that key start cold until one has saved again. [y/N] " << std::flush;
  std::string answer;
  std::getline(in, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return true;
  errors << "Nothing is deleted.\n";
  return false;
}

}  // namespace

int run_delete(const DeleteOptions& options, std::istream& in, std::ostream& out,
               std::ostream& errors) {
  const auto refuse = [&](const Error& error) { return complain(error, errors); };
  const auto cluster = connect(options.cluster);
  if (!cluster) return refuse(cluster.error());
  const auto archives = find_all(*cluster, options.archives);
  if (!archives) return refuse(archives.error());
  if (!agreed(options, *archives, in, errors)) return 1;
  int status = 0;
  for (const auto& archive : *archives) {
    const std::string name = archive.cache + "/" + archive.metadata.name;
    const auto removed =
        cluster->client.remove(controller::resources::kCompileCacheArchives, archive.metadata.ns,
                               archive.metadata.name, {.uid = archive.metadata.uid});
    if (removed) {
      out << "archive " << printable(name) << " deleted\n";
    } else {
      status = refuse(not_read(removed.error(), "archive", archive.metadata.ns, name));
    }
  }
  return status;
}

}  // namespace compilecache::cli
