#include "cli/archives/archives_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.hpp"
#include "cli/archives/archive_table.hpp"
#include "cli/cluster/watch_text.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {
namespace {

using Archives = std::vector<api::CompileCacheArchive>;

std::string list_of(const ArchivesOptions& options, const Archives& archives) {
  if (is_structured(options.output)) return structured(json_of(archives), options.output);
  if (options.output == "name") {
    return names_of(json_of(archives), "compilecachearchive.compilecache.dev");
  }
  if (archives.empty()) return "";
  return table_of(archives, SystemClock::instance().wall(), options.output == "wide",
                  options.all_namespaces ? Namespaces::kAll : Namespaces::kOne);
}

std::string where(const ArchivesOptions& options, const Cluster& cluster) {
  if (options.all_namespaces) return " in any namespace";
  return options.what.empty() ? " in the namespace " + cluster.ns : " of " + options.what;
}

}  // namespace

int run_archives(const ArchivesOptions& options, std::ostream& out, std::ostream& errors) {
  auto cluster = connect(options.cluster);
  if (!cluster) return complain(cluster.error(), errors);
  if (options.all_namespaces) cluster->ns.clear();
  bool said_none = false;
  const auto read = [&]() -> Result<std::string> {
    const auto archives = read_named_archives(*cluster, options.what, options.selector);
    if (!archives) return unexpected(archives.error());
    if (archives->empty() && !said_none && !is_structured(options.output)) {
      errors << "There is no archive yet" << where(options, *cluster) << ".\n";
    }
    said_none = archives->empty();
    return list_of(options, *archives);
  };
  if (options.watch) {
    return watch_text(cluster->client, read, {options.terminal, options.output}, out, errors);
  }
  const auto text = read();
  if (!text) return complain(text.error(), errors);
  out << *text;
  return 0;
}

}  // namespace compilecache::cli
