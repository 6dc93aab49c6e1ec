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

constexpr char kCopyFooter[] = R"(
Makes the CompileCache --to as CACHE is, but with another store, and has the operator copy CACHE's archives there
(spec.storage.copyFrom, docs/move.md); waits until they are there. Where --to exists already, archives that it
lacks are copied into it, and the store is not to be named. Digests stay the same; CACHE is left alone.
  kubectl compilecache copy llama --to llama-2 --to-registry harbor.example.com/ml/caches --secret harbor-robot
  kubectl compilecache copy llama --to llama-2 --to-claim caches

With neither, to the registry that was installed with the operator. Needs the right to get, create and patch
CompileCaches. Exit status: 0 when they are there, 1 when not, 2 when the command line is wrong.)";

constexpr char kExportFooter[] = R"(
Writes one archive to a file, an OCI archive; every byte is checked. From a registry of yours with your own
credentials; from a volume by a Job, with your own rights, in which kubectl runs (`kubectl exec`) what reads it,
and which is deleted afterwards. skopeo, `import` and `compilecache-agent import` read the file. Of the registry
that was installed with the operator, `copy` it elsewhere first.
  kubectl compilecache export llama/llama-3f2a91 -f llama.tar -n ml

Exit status: 0 when it was written, 1 when not, 2 when the command line is wrong.)";

constexpr char kImportFooter[] = R"(
Gives a CompileCache the archive of such a file: every byte is checked, it is pushed into a registry of yours
(of the CompileCache's, or --via), or put on its volume by a Job (`kubectl exec`), and the operator copies it from
there (spec.storage.copyFrom), as from any store that you name: an archive of the same key is not replaced.
  kubectl compilecache import llama.tar --to llama -n ml
  kubectl compilecache import llama.tar --to llama --via harbor.example.com/ml/inbox --secret harbor-robot

Archives are code: import what you trust. Needs credentials to push, or the right to make Jobs and to exec, and
the right to get and patch CompileCaches.
Exit status: 0 when it is there, 1 when not, 2 when the command line is wrong.)";

constexpr char kVerifyFooter[] = R"(
Reads every byte of the current generation of every archive, as a load does, and checks each digest: of a registry
of yours from here, with your own credentials (`docker login`, `skopeo login`); of a volume by a Job, with
your own rights, that mounts the claim read-only and is deleted afterwards.
  kubectl compilecache verify llama -n ml

Exit status: 0 when all are whole, 1 when one is not or cannot be read, 2 when the command line is wrong.)";

constexpr char kSignFooter[] = R"(
Vouches for archives in a registry of yours, with a P-256 key in PEM and your own credentials: CompileCaches that
name the public key in spec.trust take archives from there only when it has signed them (docs/trust.md). The
signature is cosign's, and cosign verifies it.
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.key
  openssl pkey -in release.key -pubout -out release.pub
  kubectl compilecache sign llama/llama-3f2a91 --key release.key -n ml

Exit status: 0 when all are signed, 1 when one is not, 2 when the command line is wrong.)";

void describe_login(CLI::App& command, RegistryLogin& login) {
  command.add_option("--authfile", login.auth_file,
                     "credentials of the registry; default: where docker, skopeo and oras login "
                     "leave them");
  command.add_option("--ca-file", login.ca_file, "PEM file, authorities of the registry's too");
}

void describe_tool(CLI::App& command, std::string& image) {
  command.add_option("--tool-image", image,
                     "of the Job on the volume; default: what the operator uses in the namespace");
}

void describe_wait(CLI::App& command, int& seconds) {
  command.add_option("--timeout", seconds, "how long to wait, in seconds")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
}

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

void ArchiveVerbs::add_copy(CLI::App& app) {
  const auto how = add<CopyOptions>(
      app, "copy", "copy a CompileCache's archives into another one", kCopyFooter,
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
  describe_wait(command, how->timeout_seconds);
}

void ArchiveVerbs::add_export(CLI::App& app) {
  const auto how = add<ExportCommandOptions>(
      app, "export", "write an archive to a file", kExportFooter,
      +[](const ExportCommandOptions& options) {
        return run_export(options, std::cout, std::cerr);
      });
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE/ARCHIVE", how->archive, "as `archives` lists them")->required();
  command.add_option("-f,--filename", how->file, "what to write; must not be there")->required();
  command.add_flag("--image", how->image, "as an OCI image of the archive's files");
  describe_login(command, how->login);
  describe_tool(command, how->tool_image);
  describe_wait(command, how->timeout_seconds);
}

void ArchiveVerbs::add_import(CLI::App& app) {
  const auto how = add<ImportCommandOptions>(
      app, "import", "give a CompileCache the archive of a file", kImportFooter,
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
  describe_wait(command, how->timeout_seconds);
}

void ArchiveVerbs::add_sign(CLI::App& app) {
  const auto how = add<SignOptions>(
      app, "sign", "vouch for archives in a registry of yours", kSignFooter,
      +[](const SignOptions& options) { return run_sign(options, std::cout, std::cerr); });
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE/ARCHIVE", how->archives, "as `archives` lists them")->required();
  command.add_option("--key", how->key, "a P-256 key in PEM, without a password")->required();
  describe_login(command, how->login);
}

void ArchiveVerbs::add_verify(CLI::App& app) {
  const auto how = add<VerifyOptions>(
      app, "verify", "read every byte of archives and check each digest", kVerifyFooter,
      +[](const VerifyOptions& options) { return run_verify(options, std::cout, std::cerr); });
  CLI::App& command = *entries_.back().command;
  command.add_option("CACHE", how->cache, "of one CompileCache; default: all of the namespace");
  command.add_option("-o,--output", how->output, "json or yaml; default: a line for each")
      ->check(CLI::IsMember({"json", "yaml"}));
  command.add_option("--image", how->image,
                     "of the Job; default: what the operator uses in the namespace");
  describe_login(command, how->login);
  describe_wait(command, how->timeout_seconds);
}

}  // namespace compilecache::cli
