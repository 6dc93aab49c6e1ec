#include "cli/archives/copy_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/printable.hpp"
#include "cli/archives/copy_wait.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// The CompileCache that gets the archives, with the copy asked for.
Result<json> ask(const Cluster& cluster, const CopyOptions& options) {
  const auto& caches = controller::resources::kCompileCaches;
  const std::string doing = "reading CompileCache " + cluster.ns + "/" + options.from;
  const auto source = cluster.client.get(caches, cluster.ns, options.from);
  if (!source) return unexpected(source.error().with(doing));
  const auto parsed = api::parse_compile_cache(*source);
  if (!parsed) return unexpected(parsed.error().with(doing));
  const auto from = copy_from(*parsed);
  if (!from) return unexpected(from.error());
  const auto there = cluster.client.get(caches, cluster.ns, options.to);
  if (there && !options.target.empty()) {
    return fail(ErrorCode::kAlreadyExists,
                "CompileCache " + options.to +
                    " is there already, with a store of its own: leave --to-claim and "
                    "--to-registry out, or give another name");
  }
  if (there) return ask_for_copy(cluster, options.to, *from);
  if (there.error().code != ErrorCode::kNotFound) return unexpected(there.error());
  auto made =
      cluster.client.create(caches, copied_cache(*source, options.to, options.target, *from));
  if (!made) {
    return unexpected(made.error().with("creating CompileCache " + cluster.ns + "/" + options.to));
  }
  return made;
}

}  // namespace

int run_copy(const CopyOptions& options, std::ostream& out, std::ostream& errors) {
  const auto refuse = [&](const Error& error) {
    errors << "kubectl compilecache copy: " << printable(error.message) << "\n";
    return 1;
  };
  const auto cluster = connect(options.cluster);
  if (!cluster) return refuse(cluster.error());
  if (options.from == options.to) {
    return refuse({ErrorCode::kInvalid,
                   "a CompileCache is not copied to itself; to change its "
                   "store give --to another name (docs/move.md)"});
  }
  const auto asked = ask(*cluster, options);
  if (!asked) return refuse(asked.error());
  const auto copied = wait_for_copy(*cluster, options.to, api::object_meta(*asked).generation,
                                    std::chrono::seconds(options.timeout_seconds), errors);
  if (!copied) {
    return refuse(
        still_copying(copied.error(), *cluster, options.to).with("copying " + options.from));
  }
  out << "CompileCache " << options.to << ": " << printable(*copied)
      << "\nPods get them with the annotation compilecache.dev/cache: " << options.to << "\n";
  return 0;
}

}  // namespace compilecache::cli
