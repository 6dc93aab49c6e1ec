#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>

#include "agent/container_memory.hpp"
#include "agent/coordinator.hpp"
#include "agent/load/load.hpp"
#include "agent/load/subprocess.hpp"
#include "agent/pod.hpp"
#include "agent/process.hpp"
#include "agent/registry_access.hpp"
#include "agent/save/save.hpp"
#include "agent/sweep/sweep.hpp"
#include "agent/termination.hpp"
#include "agent/tools/effect.hpp"
#include "agent/tools/inspect.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/version.hpp"
#include "store/access/open.hpp"

namespace compilecache::agent {
namespace {

constexpr char kAbout[] =
    "compilecache-agent puts compiled kernels of torch.compile into a pod before it starts, and "
    "saves\nnew ones to a shared volume or a registry.\n\n"
    "You rarely run it yourself: the operator injects `load` (an init container) and `save` (a "
    "sidecar) into\nannotated pods and runs `sweep` in Jobs. `inspect`, `verify`, `export` and "
    "`import` are for people with\naccess to the volume.";

constexpr char kFooter[] =
    "load, save, sweep and effect read their configuration (JSON) from the variable "
    "COMPILECACHE_CONFIG or "
    "from\n--config FILE. Without an operator_address in it they work by the volume's index alone. "
    "See agent/README.md.";

constexpr char kInspectExamples[] =
    "Examples:\n"
    "  compilecache-agent inspect /mnt/caches/llama\n"
    "  compilecache-agent inspect /mnt/caches/llama --json | jq -r '.archives[].name'\n\n"
    "Exits 1 when it is no store, or something in it cannot be read.";

constexpr char kVerifyExamples[] =
    "Examples:\n"
    "  compilecache-agent verify /mnt/caches/llama\n"
    "  compilecache-agent verify /mnt/caches/llama llama-3f2a91 --json\n\n"
    "Exits 1 when an archive is not whole, or there is none of that name.";

constexpr char kExportExamples[] =
    "Examples:\n"
    "  compilecache-agent export /mnt/caches/llama llama-3f2a91 llama.tar\n"
    "  skopeo copy oci-archive:llama.tar docker://registry.example.com/caches/llama:v1\n"
    "  compilecache-agent export --image /mnt/caches/llama llama-3f2a91 image.tar\n"
    "  ctr images import --index-name registry.example.com/caches/llama:image image.tar\n\n"
    "An archive is an OCI artifact, which `skopeo inspect --raw` shows. --image makes an image of "
    "its files, for\nKubernetes' image volumes and what else mounts images; that cannot be "
    "imported again.";

constexpr char kImportExamples[] =
    "Examples:\n"
    "  skopeo copy docker://registry.example.com/caches/llama:v1 oci-archive:llama.tar\n"
    "  compilecache-agent import /mnt/caches/llama llama.tar\n"
    "  compilecache-agent import /mnt/caches/llama llama.tar --name llama-again\n\n"
    "Every byte is checked before the archive is named in the index. A loader finds it there when "
    "it has no operator\nto ask. Where an operator looks after the store, its next sweep removes "
    "what it does not know.";

struct Options {
  std::string config_file;
  std::string store;
  std::string archive;
  std::vector<std::string> archives;
  std::string file;
  std::string name;
  bool image = false;
  bool json = false;
  bool once = false;
  bool cold = false;
  bool log_json = false;
  bool debug = false;
};

// The work's arguments live as long as the process, like its threads.
const Clock& the_clock() {
  static const auto* const clock = new SystemClock;
  return *clock;
}

// Throws where the system grants no thread.
Process make_process() {
  static const auto* const random = new Random(system_random());
  static auto* const termination = new Termination;
  return {the_clock(), *random, *termination};
}

std::unique_ptr<Coordinator> ask_the_operator(const api::AgentConfig& config) {
  static const auto* const random = new Random(system_random());
  return make_operator_client(config, the_clock(), *random, [](std::chrono::milliseconds time) {
    std::this_thread::sleep_for(time);
    return true;
  });
}

enum class Use { kLoad, kWork };

std::unique_ptr<store::Store> make_store(const api::AgentConfig& config, Use use) {
  const api::RegistryRef* registry = config.store ? config.store->registry() : nullptr;
  if (registry == nullptr) return store::open_store(api::store_directory(config));
  const auto options = use == Use::kLoad ? loading_options : registry_options;
  return store::open_registry(
      options(config, *registry, [config] { return ask_the_operator(config); }));
}

// Null where nothing is to be copied.
std::unique_ptr<store::Store> open_source(const api::AgentConfig& config) {
  const auto& from = config.sweep.copy_from;
  if (!from) return nullptr;
  const api::RegistryRef* registry = from->registry();
  if (registry == nullptr) return store::open_store(api::source_directory(config));
  return store::open_registry(
      source_registry_options(config, *registry, [config] { return ask_the_operator(config); }));
}

// The one store of this process.
store::Store& open_store(const api::AgentConfig& config, Use use = Use::kWork) {
  static auto* const store = make_store(config, use).release();
  return *store;
}

void load_here(const Options& options, const std::function<void()>& leaving,
               Predecessor predecessor) {
  stay_below_container_memory();
  const Process process = make_process();
  const auto config = read_agent_config(options.config_file);
  if (!config) {
    log_error("starting cold", {{"error", config.error().message}});
    return;
  }
  run_load(*config, open_store(*config, Use::kLoad), process, leaving, predecessor);
}

SubprocessEnd load_in_subprocess(const Options& options, Predecessor predecessor) {
  return run_in_subprocess([&](const std::function<void()>& leaving) {
    try {
      load_here(options, leaving, predecessor);
    } catch (const std::exception& error) {
      log_error("starting cold", {{"error", error.what()}});
    }
  });
}

// A loader that fails must let the pod start.
int load(const Options& options) {
  try {
    const auto before = options.cold ? Predecessor::kEnded : Predecessor::kNone;
    SubprocessEnd ended = load_in_subprocess(options, before);
    if (ended == SubprocessEnd::kCrashed) {
      log_error("the loader crashed; starting cold", {});
      ended = load_in_subprocess(options, Predecessor::kCrashed);
    } else if (ended == SubprocessEnd::kNotStarted) {
      load_here(options, nullptr, before);
      return 0;
    }
    if (const auto config = read_agent_config(options.config_file)) empty_after_load(*config);
  } catch (const std::exception& error) {
    log_error("starting cold", {{"error", error.what()}});
  }
  return 0;
}

int watch(const Options& options, const Process& process) {
  const auto config = read_agent_config(options.config_file);
  if (!config) {
    log_error("nothing will be saved", {{"error", config.error().message}});
    if (options.once) return 1;
    wait_for_the_end(process.termination);
    return 0;
  }
  store::Store& store = open_store(*config);
  if (options.once) return run_save_once(*config, store, process) ? 0 : 1;
  run_save(*config, store, process);
  return 0;
}

// A saver that cannot work waits: restarting it again and again would change nothing.
int save(const Options& options) {
  stay_below_container_memory();
  const Termination* termination = nullptr;
  try {
    const Process process = make_process();
    termination = &process.termination;
    return watch(options, process);
  } catch (const std::exception& error) {
    log_error("nothing will be saved", {{"error", error.what()}});
  }
  if (options.once) return 1;
  if (termination == nullptr) {
    wait_for_signal();
  } else {
    wait_for_the_end(*termination);
  }
  return 0;
}

int sweep(const Options& options) {
  const Process process = make_process();
  const auto config = read_agent_config(options.config_file);
  if (!config) {
    log_error("cannot sweep", {{"error", config.error().message}});
    return 1;
  }
  store::Store& store = open_store(*config);
  const auto coordinator = make_coordinator(
      *config, store, node_name(), process.clock, process.random,
      [&](std::chrono::milliseconds time) { return process.termination.sleep(time); });
  const auto source = open_source(*config);
  return run_sweep(*config, store, source.get(), *coordinator, process.clock) ? 0 : 1;
}

int effect(const Options& options) {
  const auto config = read_agent_config(options.config_file);
  if (config) return run_effect(*config, open_store(*config), options.json, the_clock());
  log_error("cannot judge", {{"error", config.error().message}});
  return 1;
}

void add_config(CLI::App* command, Options& options) {
  command->add_option("--config", options.config_file,
                      "File with the configuration, instead of COMPILECACHE_CONFIG");
}

void add_store(CLI::App* command, Options& options) {
  command->add_option("STORE", options.store, "Directory of the store, an OCI image layout")
      ->required();
  command->add_flag("--json", options.json, "Print JSON");
}

void add_tools(CLI::App* verify, CLI::App* exporting, CLI::App* importing, Options& options) {
  verify->add_option("ARCHIVE", options.archives,
                     "Only these archives: their names, or their manifests' digests");
  verify->footer(kVerifyExamples);
  exporting->add_option("ARCHIVE", options.archive, "Its name, or its manifest's digest")
      ->required();
  exporting
      ->add_option("FILE", options.file, "What to write; must not be there yet; -: standard output")
      ->required();
  exporting->add_flag("--image", options.image, "As an OCI image of the archive's files");
  exporting->footer(kExportExamples);
  importing
      ->add_option("FILE", options.file,
                   "An OCI archive, as `export` and skopeo write it; -: standard input")
      ->required();
  importing->add_option("--name", options.name, "Under this name instead of its own");
  importing->footer(kImportExamples);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(kAbout, "compilecache-agent");
  app.footer(kFooter);
  app.set_version_flag("--version", version_line("compilecache-agent"));
  app.add_flag("--log-json", options.log_json, "Log JSON lines instead of text");
  app.require_subcommand(1);
  auto* load_command = app.add_subcommand(
      "load", "Fill the cache directories from the pod's archive; always exits 0");
  load_command->add_flag("--cold", options.cold,
                         "Load nothing; remove what a loader left that was ended in the middle");
  auto* save_command = app.add_subcommand(
      "save", "Watch the cache directories and save what is new; ends only at SIGTERM");
  save_command->add_flag("--once", options.once,
                         "Save when the cache is still, and exit: 0 when it was saved or nothing "
                         "was new");
  save_command->add_flag("--debug", options.debug, "Log what each look sees and decides");
  auto* sweep_command =
      app.add_subcommand("sweep", "Prepare the store and remove what the operator condemned");
  auto* effect_command = app.add_subcommand(
      "effect", "Say whether the app has used what was loaded into the cache directories");
  effect_command->add_flag("--json", options.json, "Print JSON");
  auto* inspect_command = app.add_subcommand("inspect", "Show what is in a store");
  auto* verify_command =
      app.add_subcommand("verify", "Read every byte of a store's archives; exits 1 if one is bad");
  for (auto* command : {load_command, save_command, sweep_command, effect_command})
    add_config(command, options);
  auto* export_command =
      app.add_subcommand("export", "Write one archive to a file, an OCI archive");
  auto* import_command =
      app.add_subcommand("import", "Put the archive of an OCI archive into a store");
  for (auto* command : {inspect_command, verify_command, export_command, import_command})
    add_store(command, options);
  add_tools(verify_command, export_command, import_command, options);
  inspect_command->footer(kInspectExamples);
  CLI11_PARSE(app, argc, argv);

  log_init(options.log_json ? LogFormat::kJson : LogFormat::kText,
           options.debug ? LogLevel::kDebug : LogLevel::kInfo);
  if (*inspect_command) return run_inspect(*store::open_store(options.store), options.json);
  if (*verify_command)
    return run_verify(*store::open_store(options.store), options.archives, options.json);
  if (*export_command)
    return run_export(*store::open_store(options.store), options.archive, options.file,
                      options.image, options.json);
  if (*import_command) return run_import(options.store, options.file, options.name, options.json);
  if (*effect_command) return effect(options);
  if (*load_command) return load(options);
  if (*save_command) return save(options);
  return sweep(options);
}

// Recognises `load` even where the rest of the command line is wrong.
bool is_load(int argc, char** argv) {
  const auto* command = std::find_if(argv + std::min(argc, 1), argv + argc,
                                     [](const char* word) { return word[0] != '-'; });
  return command != argv + argc && std::string_view(*command) == "load";
}

}  // namespace
}  // namespace compilecache::agent

int main(int argc, char** argv) {
  int code = 1;
  try {
    code = compilecache::agent::run(argc, argv);
  } catch (const std::exception& error) {
    compilecache::log_error("compilecache-agent failed", {{"error", error.what()}});
  }
  if (!compilecache::agent::is_load(argc, argv) || code == 0) return code;
  compilecache::log_error("starting cold", {{"error", "the command line is wrong, see above"}});
  return 0;
}
