#include "cli/archives/archives_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.hpp"
#include "cli/archives/archive_table.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {

int run_archives(const ArchivesOptions& options, std::ostream& out, std::ostream& errors) {
  const auto refuse = [&](const Error& error) {
    errors << "kubectl compilecache archives: " << error.message << "\n";
    return 1;
  };
  const auto cluster = connect(options.cluster);
  if (!cluster) return refuse(cluster.error());
  // A name with a slip of the pen is not an empty list.
  if (!options.cache.empty()) {
    if (auto cache = read_cache(*cluster, options.cache); !cache) return refuse(cache.error());
  }
  const auto archives = read_archives(*cluster, options.cache);
  if (!archives) return refuse(archives.error());
  if (options.output == "json" || options.output == "yaml") {
    out << structured(json_of(*archives), options.output);
  } else if (archives->empty()) {
    errors << "There is no archive yet"
           << (options.cache.empty() ? " in the namespace " + cluster->ns : " of " + options.cache)
           << ".\n";
  } else {
    out << table_of(*archives, SystemClock::instance().wall(), options.output == "wide");
  }
  return 0;
}

}  // namespace compilecache::cli
