#include "cli/archive_verbs.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/archives/archives_command.hpp"
#include "cli/archives/copy_command.hpp"
#include "cli/archives/delete_command.hpp"
#include "cli/archives/export_command.hpp"
#include "cli/archives/import_command.hpp"
#include "cli/archives/sign_command.hpp"
#include "cli/archives/verify_command.hpp"
#include "cli/cluster/undo.hpp"
#include "cli/shell/command_help.hpp"
#include "cli/shell/duration_option.hpp"
#include "cli/shell/output_option.hpp"

namespace compilecache::cli {
namespace {

constexpr char kGroup[] = "Archives";

constexpr CommandHelp kArchivesHelp{
    .about =
        R"(GPU product, generation, size, image, age, last use, effect, and whether an archive is suspect. You need
the right to list CompileCacheArchives.)",
    .examples = R"(  # Those of a namespace
  kubectl compilecache archives -n ml

  # Those of one CompileCache, with loads, files and digests
  kubectl compilecache archives llama -n ml -o wide
)",
    .exit_status =
        "0 if they were listed, 1 if they cannot be read, 2 if the command line is wrong."};

constexpr CommandHelp kDeleteHelp{
    .about =
        R"(Pods of the deleted keys start cold and save again. Sweeps delete the bytes that no other archive has. It
asks before it deletes; --yes is for scripts.)",
    .examples = R"(  kubectl compilecache delete llama/llama-3f2a91 -n ml
)",
    .exit_status =
        "0 if all are deleted, 1 if one is not or you said no, 2 if the command line is wrong."};

constexpr CommandHelp kCopyHelp{
    .about =
        R"(Creates the CompileCache --to like CACHE but with another store, has the operator copy CACHE's archives there
(spec.storage.copyFrom), and waits. If --to exists already, archives that it lacks are copied into it, and you
name no store. Digests stay the same; CACHE does not change.

Without --to-claim and --to-registry, the archives go to the registry installed with the operator. You need the
right to get, create and patch CompileCaches.)",
    .examples = R"(  # Into a registry of yours
  kubectl compilecache copy llama --to llama-2 --to-registry harbor.example.com/ml/caches --secret harbor-robot

  # Onto a volume
  kubectl compilecache copy llama --to llama-2 --to-claim caches
)",
    .exit_status = "0 if they were copied, 1 if not, 2 if the command line is wrong."};

constexpr CommandHelp kExportHelp{
    .about =
        R"(Writes an OCI archive; every byte is checked. A registry of yours is read with your own credentials. A volume is
read by a Job with your rights, in which kubectl runs the agent (`kubectl exec`); the Job is deleted afterwards.
skopeo, `import` and `compilecache-agent import` read the file. Archives in the registry installed with the
operator have to be copied elsewhere first (`copy`).)",
    .examples = R"(  kubectl compilecache export llama/llama-3f2a91 -f llama.tar -n ml
)",
    .exit_status = "0 if it was written, 1 if not, 2 if the command line is wrong."};

constexpr CommandHelp kImportHelp{
    .about =
        R"(Every byte of the file is checked. It is pushed into a registry of yours (the CompileCache's, or --via), or put on
the CompileCache's volume by a Job (`kubectl exec`). The operator copies it from there, as from any store that
you name (spec.storage.copyFrom): an archive of the same key is not replaced.

Archives are code: import only files that you trust. You need credentials to push, or the right to create Jobs
and to exec, and the right to get and patch CompileCaches.)",
    .examples = R"(  # Through the CompileCache's own store
  kubectl compilecache import llama.tar --to llama -n ml

  # Through another registry
  kubectl compilecache import llama.tar --to llama --via harbor.example.com/ml/inbox --secret harbor-robot
)",
    .exit_status = "0 if it was imported, 1 if not, 2 if the command line is wrong."};

constexpr CommandHelp kVerifyHelp{
    .about =
        R"(Reads every byte of the current generation, as a load does, and checks each digest. A registry of yours is read
from here with your own credentials (`docker login`, `skopeo login`). A volume is read by a Job with your rights
that mounts the claim read-only; the Job is deleted afterwards.)",
    .examples = R"(  # All archives of a CompileCache
  kubectl compilecache verify llama -n ml
)",
    .exit_status =
        "0 if all are whole, 1 if one is not or cannot be read, 2 if the command line is wrong."};

constexpr CommandHelp kSignHelp{
    .about =
        R"(Signs with a P-256 key in PEM and your own credentials. CompileCaches that name the public key in spec.trust
accept an archive from that registry only if it is signed. The signature is cosign's, and cosign verifies it.)",
    .examples = R"(  # A key pair
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.key
  openssl pkey -in release.key -pubout -out release.pub

  # Sign one archive
  kubectl compilecache sign llama/llama-3f2a91 --key release.key -n ml
)",
    .exit_status = "0 if all are signed, 1 if one is not, 2 if the command line is wrong."};

void describe_login(CLI::App& command, RegistryLogin& login) {
  command.add_option("--authfile", login.auth_file,
                     "credentials of the registry; default: where docker, skopeo and oras login "
                     "leave them");
  command.add_option("--ca-file", login.ca_file, "PEM file, authorities of the registry's too");
}

void describe_tool(CLI::App& command, std::string& image) {
  command.add_option(
      "--tool-image", image,
      "image of the Job on the volume; default: what the operator uses in the namespace");
}

void describe_wait(CLI::App& command, std::chrono::seconds& timeout) {
  add_duration(command, "--timeout", timeout, "how long to wait");
}

void describe_cluster(CLI::App& command, ClusterOptions& cluster) {
  command.add_option("-n,--namespace", cluster.ns, "their namespace; default: the kubeconfig's");
  command.add_option("--kubeconfig", cluster.kubeconfig,
                     "how to reach the API server; default: KUBECONFIG, the pod's service account, "
                     "~/.kube/config");
  command.add_option("--context", cluster.context, "of the kubeconfig; default: its current one");
}

}  // namespace

template <typename Options>
std::shared_ptr<Options> ArchiveVerbs::add(CLI::App& app, const char* name, const char* about,
                                           const CommandHelp& help, int (*run)(const Options&)) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(name, about)->group(kGroup);
  set_help(*command, help);
  describe_cluster(*command, options->cluster);
  entries_.push_back({command, [options, run] {
                        undo_at_signals();
                        return run(*options);
                      }});
  return options;
}

ArchiveVerbs::ArchiveVerbs(CLI::App& app) {
  add_archives(app);
  add_copy(app);
  add_delete(app);
  add_export(app);
  add_import(app);
  add_sign(app);
  add_verify(app);
}

Verb ArchiveVerbs::chosen() const {
  for (const Entry& entry : entries_) {
    if (entry.command->parsed()) return entry.run;
  }
  return nullptr;
}

void ArchiveVerbs::add_archives(CLI::App& app) {
  const auto how = add<ArchivesOptions>(
      app, "archives", "list archives: GPU product, size, age, what they are worth", kArchivesHelp,
      +[](const ArchivesOptions& options) { return run_archives(options, std::cout, std::cerr); });
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE|CACHE/ARCHIVE", how->what,
                     "of one CompileCache, or one of them; default: all of the namespace");
  add_output(command, how->output, {"wide", "json", "yaml", "name"}, "default: a table");
  command.add_option("-l,--selector", how->selector, "by labels, as kubectl has it: app=web,!old");
  command.add_flag("-A,--all-namespaces", how->all_namespaces, "of all namespaces");
  command.add_flag("-w,--watch", how->watch, "print them again whenever they change, until Ctrl-C");
  how->terminal = ::isatty(STDOUT_FILENO) == 1;
  command.callback([how] {
    if (how->all_namespaces && !how->what.empty())
      throw CLI::ExcludesError("CACHE", "--all-namespaces");
  });
}

void ArchiveVerbs::add_delete(CLI::App& app) {
  const auto how = add<DeleteOptions>(
      app, "delete", "delete archives", kDeleteHelp, +[](const DeleteOptions& options) {
        return run_delete(options, std::cin, std::cout, std::cerr);
      });
  how->can_ask = ::isatty(STDIN_FILENO) == 1;
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE/ARCHIVE", how->archives, "as `archives` lists them")->required();
  command.add_flag("-y,--yes", how->yes, "do not ask");
}

void ArchiveVerbs::add_copy(CLI::App& app) {
  const auto how = add<CopyOptions>(
      app, "copy", "copy a CompileCache's archives into another one", kCopyHelp,
      +[](const CopyOptions& options) { return run_copy(options, std::cout, std::cerr); });
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE", how->from, "whose archives")->required();
  command.add_option("--to", how->to, "name of the CompileCache that gets them")->required();
  auto* claim = command.add_option("--to-claim", how->target.claim, "a PersistentVolumeClaim");
  command.add_option("--sub-path", how->target.sub_path, "folder on it")->needs(claim);
  auto* registry = command.add_option("--to-registry", how->target.repository,
                                      "a registry of yours, harbor.example.com/ml/caches");
  registry->excludes(claim);
  command.add_option("--secret", how->target.secret, "for it, kubernetes.io/dockerconfigjson")
      ->needs(registry);
  command.add_option("--ca-config-map", how->target.ca_config_map, "with its ca.crt")
      ->needs(registry);
  describe_wait(command, how->timeout);
}

void ArchiveVerbs::add_export(CLI::App& app) {
  const auto how = add<ExportCommandOptions>(
      app, "export", "write an archive to a file", kExportHelp,
      +[](const ExportCommandOptions& options) {
        return run_export(options, std::cout, std::cerr);
      });
  how->terminal = ::isatty(STDOUT_FILENO) == 1;
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE/ARCHIVE", how->archive, "as `archives` lists them")->required();
  command
      .add_option("-f,--filename", how->file,
                  "what to write; must not be there; - for standard output")
      ->required();
  command.add_flag("--as-image", how->image, "as an OCI image of the archive's files");
  describe_login(command, how->login);
  describe_tool(command, how->tool_image);
  describe_wait(command, how->timeout);
}

void ArchiveVerbs::add_import(CLI::App& app) {
  const auto how = add<ImportCommandOptions>(
      app, "import", "give a CompileCache the archive of a file", kImportHelp,
      +[](const ImportCommandOptions& options) {
        return run_import(options, std::cout, std::cerr);
      });
  CLI::App& command = *entries_.back().command;
  command.add_option("FILE", how->file, "an OCI archive, as export and skopeo write it")
      ->required();
  command.add_option("--to", how->cache, "the CompileCache that gets it")->required();
  auto* via = command.add_option("--via", how->via.repository,
                                 "a registry of yours on the way; default: the CompileCache's own");
  command.add_option("--secret", how->via.secret, "by which the operator's Job pulls from it")
      ->needs(via);
  command.add_option("--ca-config-map", how->via.ca_config_map, "with its ca.crt")->needs(via);
  command.add_option("--key", how->key,
                     "sign it on the way, as `sign` does, for a CompileCache with spec.trust");
  describe_login(command, how->login);
  describe_tool(command, how->tool_image);
  describe_wait(command, how->timeout);
}

void ArchiveVerbs::add_sign(CLI::App& app) {
  const auto how = add<SignOptions>(
      app, "sign", "sign archives in a registry of yours", kSignHelp,
      +[](const SignOptions& options) { return run_sign(options, std::cout, std::cerr); });
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE/ARCHIVE", how->archives, "as `archives` lists them")->required();
  command.add_option("--key", how->key, "a P-256 key in PEM, without a password")->required();
  describe_login(command, how->login);
}

void ArchiveVerbs::add_verify(CLI::App& app) {
  const auto how = add<VerifyOptions>(
      app, "verify", "read every byte of archives and check each digest", kVerifyHelp,
      +[](const VerifyOptions& options) { return run_verify(options, std::cout, std::cerr); });
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE|CACHE/ARCHIVE", how->what,
                     "of one CompileCache, or one of them; default: all of the namespace");
  add_output(command, how->output, {"json", "yaml"}, "default: a line for each");
  describe_tool(command, how->tool_image);
  describe_login(command, how->login);
  describe_wait(command, how->timeout);
}

}  // namespace compilecache::cli
