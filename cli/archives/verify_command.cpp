#include "cli/archives/verify_command.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "archive/extract/extract.hpp"
#include "cli/archives/tool_job.hpp"
#include "cli/archives/tool_run.hpp"
#include "cli/archives/verdicts.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {
namespace {

using Archives = std::vector<api::CompileCacheArchive>;

Result<std::vector<Verdict>> verify_registry(const api::RegistryRef& registry,
                                             const VerifyOptions& options,
                                             const Archives& archives) {
  const auto store = open_users_registry(registry, options.login);
  if (!store) return unexpected(store.error());
  std::vector<Verdict> verdicts;
  for (const auto& archive : archives) {
    Verdict verdict{archive.cache, archive.metadata.name, archive.head.manifest_digest};
    const auto verified = archive::verify(**store, verdict.digest);
    verdict.whole = verified.has_value();
    if (!verified) {
      const ErrorCode code = verified.error().code;
      // A registry that does not answer says nothing of its archives.
      if (code != ErrorCode::kCorrupt && code != ErrorCode::kNotFound)
        return unexpected(verified.error());
      verdict.error = verified.error().message;
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

Result<std::vector<Verdict>> verify_volume(const Cluster& cluster, const api::VolumeRef& volume,
                                           const VerifyOptions& options, const Archives& archives,
                                           std::ostream& errors) {
  ToolRun run{.volume = volume,
              .image = options.tool_image,
              .arguments = {"verify", store_path(volume), "--json"},
              .deadline = options.timeout};
  for (const auto& archive : archives) run.arguments.push_back(archive.head.manifest_digest);
  const auto ended = run_tool(cluster, run, errors);
  if (!ended) return unexpected(ended.error());
  return read_verdicts(ended->output, archives);
}

Result<std::vector<Verdict>> verify_cache(const Cluster& cluster, const std::string& name,
                                          const VerifyOptions& options, const Archives& archives,
                                          std::ostream& errors) {
  const auto cache = read_cache(cluster, name);
  if (!cache) return unexpected(cache.error());
  const auto store = api::store_of(*cache, {});
  if (!store) {  // a CompileCache with archives and no storage of its own
    return fail(ErrorCode::kInvalid,
                "CompileCache \"" + name +
                    "\" keeps its archives in the registry that was installed with the operator, "
                    "which answers inside the cluster alone; every load checks each digest all "
                    "the same");
  }
  if (const auto* volume = store->volume())
    return verify_volume(cluster, *volume, options, archives, errors);
  return verify_registry(*store->registry(), options, archives);
}

}  // namespace

int run_verify(const VerifyOptions& options, std::ostream& out, std::ostream& errors) {
  const auto refuse = [&](const Error& error) { return complain(error, errors); };
  const auto cluster = connect(options.cluster);
  if (!cluster) return refuse(cluster.error());
  const auto archives = read_named_archives(*cluster, options.what);
  if (!archives) return refuse(archives.error());
  std::map<std::string, Archives> by_cache;
  for (const auto& archive : *archives) by_cache[archive.cache].push_back(archive);
  int status = 0;
  std::vector<Verdict> all;
  for (const auto& [name, of_cache] : by_cache) {
    const auto verdicts = verify_cache(*cluster, name, options, of_cache, errors);
    if (!verdicts) {
      status = refuse(verdicts.error());
      continue;
    }
    for (const Verdict& verdict : *verdicts) {
      if (options.output.empty()) out << text_of(verdict) << std::flush;
      if (!verdict.whole) status = 1;
      all.push_back(verdict);
    }
  }
  if (!options.output.empty()) out << structured(json_of(all), options.output);
  if (by_cache.empty()) errors << "There is no archive yet.\n";
  return status;
}

}  // namespace compilecache::cli
