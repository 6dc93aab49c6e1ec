#include "cli/archive_verbs.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/archives_command.hpp"
#include "cli/delete_command.hpp"

namespace compilecache::cli {
namespace {

constexpr char kArchivesFooter[] = R"(
The archives of a CompileCache, or of all of the namespace: GPU product, generation, size, image, when it was
saved and used last, what it was worth, whether it is suspect. Needs the right to list CompileCacheArchives.
  kubectl compilecache archives llama -n ml -o wide

Exit status: 0 when they were told, 1 when they cannot be read, 2 when the command line is wrong.)";

constexpr char kDeleteFooter[] = R"(
Deletes CompileCacheArchives, which throws the archives away: pods of their keys start cold and save anew, and
sweeps delete the bytes that no other archive has. Asks before; --yes for scripts.
  kubectl compilecache delete llama/llama-3f2a91 -n ml

Exit status: 0 when all are gone, 1 when one is not or you said no, 2 when the command line is wrong.)";

void describe_cluster(CLI::App& command, ClusterOptions& cluster) {
  command.add_option("-n,--namespace", cluster.ns, "theirs; default: the kubeconfig's");
  command.add_option("--kubeconfig", cluster.kubeconfig,
                     "how to reach the API server; default: KUBECONFIG, the pod's service account, "
                     "~/.kube/config");
  command.add_option("--context", cluster.context, "of the kubeconfig; default: its current one");
}

}  // namespace

template <typename Options>
std::shared_ptr<Options> ArchiveVerbs::add(CLI::App& app, const char* name, const char* about,
                                           const char* footer, int (*run)(const Options&)) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(name, about);
  command->footer(footer);
  describe_cluster(*command, options->cluster);
  entries_.push_back({command, [options, run] { return run(*options); }});
  return options;
}

ArchiveVerbs::ArchiveVerbs(CLI::App& app) {
  add_archives(app);
  add_delete(app);
}

Verb ArchiveVerbs::chosen() const {
  for (const Entry& entry : entries_) {
    if (entry.command->parsed()) return entry.run;
  }
  return nullptr;
}

void ArchiveVerbs::add_archives(CLI::App& app) {
  const auto how = add<ArchivesOptions>(
      app, "archives", "list archives: GPU product, size, age, what they are worth",
      kArchivesFooter,
      +[](const ArchivesOptions& options) { return run_archives(options, std::cout, std::cerr); });
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE", how->cache, "of one CompileCache; default: all of the namespace");
  command.add_option("-o,--output", how->output, "wide, json or yaml; default: a table")
      ->check(CLI::IsMember({"wide", "json", "yaml"}));
}

void ArchiveVerbs::add_delete(CLI::App& app) {
  const auto how = add<DeleteOptions>(
      app, "delete", "throw archives away", kDeleteFooter, +[](const DeleteOptions& options) {
        return run_delete(options, std::cin, std::cout, std::cerr);
      });
  how->can_ask = ::isatty(STDIN_FILENO) == 1;
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE/ARCHIVE", how->archives, "as `archives` lists them")->required();
  command.add_flag("-y,--yes", how->yes, "do not ask");
}

}  // namespace compilecache::cli
