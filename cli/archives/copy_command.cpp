#include "cli/archives/copy_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/printable.hpp"
#include "cli/archives/copy_wait.hpp"
#include "cli/cluster/plain_error.hpp"
#include "cli/text/complaint.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// The CompileCache that gets the archives, with the copy asked for.
struct Target {
  json object;
  bool made = false;  // by this command
};

Result<Target> ask(const Cluster& cluster, const CopyOptions& options) {
  const auto& caches = controller::resources::kCompileCaches;
  const auto source = cluster.client.get(caches, cluster.ns, options.from);
  if (!source)
    return unexpected(not_read(source.error(), "CompileCache", cluster.ns, options.from));
  const auto parsed = api::parse_compile_cache(*source);
  if (!parsed) return unexpected(parsed.error().with("CompileCache \"" + options.from + "\""));
  const auto from = copy_from(*parsed);
  if (!from) return unexpected(from.error());
  const auto there = cluster.client.get(caches, cluster.ns, options.to);
  if (there && !options.target.empty()) {
    return fail(ErrorCode::kAlreadyExists,
                "CompileCache " + options.to +
                    " is there already, with a store of its own: leave --to-claim and "
                    "--to-registry out, or give another name");
  }
  if (there) {
    auto changed = ask_for_copy(cluster, options.to, *from);
    if (!changed) return unexpected(changed.error());
    return Target{std::move(*changed)};
  }
  if (there.error().code != ErrorCode::kNotFound) return unexpected(plain_error(there.error()));
  auto made =
      cluster.client.create(caches, copied_cache(*source, options.to, options.target, *from));
  if (!made) {
    return unexpected(plain_error(made.error()));
  }
  return Target{std::move(*made), true};
}

// Deletes the target that this command created if no copy can ever reach it.
Error without_target(const Error& error, const Cluster& cluster, const Target& target) {
  if (!target.made || error.code != ErrorCode::kInvalid) return error;
  const api::ObjectMeta meta = api::object_meta(target.object);
  const auto removed = cluster.client.remove(controller::resources::kCompileCaches, cluster.ns,
                                             meta.name, {.uid = meta.uid});
  return removed ? Error{error.code,
                         error.message + "; CompileCache " + meta.name + " was deleted again"}
                 : error;
}

}  // namespace

int run_copy(const CopyOptions& options, std::ostream& out, std::ostream& errors) {
  const auto refuse = [&](const Error& error) { return complain(error, errors); };
  const auto cluster = connect(options.cluster);
  if (!cluster) return refuse(cluster.error());
  if (options.from == options.to) {
    return refuse({ErrorCode::kInvalid,
                   "a CompileCache is not copied to itself; to change its "
                   "store give --to another name (docs/how-to/storage/move.md)"});
  }
  const auto asked = ask(*cluster, options);
  if (!asked) return refuse(asked.error());
  const auto copied = wait_for_copy(
      *cluster, options.to, api::object_meta(asked->object).generation, options.timeout, errors);
  if (!copied) {
    const Error error = still_copying(copied.error(), *cluster, options.to);
    return refuse(without_target(error, *cluster, *asked));
  }
  out << "CompileCache " << options.to << ": " << printable(*copied)
      << "\nPods get them with the annotation compilecache.dev/cache: " << options.to << "\n";
  return 0;
}

}  // namespace compilecache::cli
