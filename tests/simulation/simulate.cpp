#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "tests/simulation/faults/fault.hpp"
#include "tests/simulation/faults/shrink.hpp"
#include "tests/simulation/installation/world.hpp"
#include "tests/simulation/log_tail.hpp"
#include "tests/simulation/os/scheduler.hpp"
#include "tests/simulation/tenants/hostile.hpp"
#include "tests/simulation/tenants/tenants.hpp"

// Runs one seed of the simulation and reports what was violated: README.md.

namespace compilecache::simulation {
namespace {

constexpr size_t kLogLines = 200;

struct Options {
  uint64_t seed = 1;
  int64_t days = 2;
  int64_t tenants = 4;
  bool hostile = true;
  std::string faults;              // a list; empty: what the seed decides
  std::vector<std::string> kinds;  // of those, only these; empty: all
  int shrink_tries = 0;
  bool log = false;
  std::string settings = "config/settings.yaml";
};

// Of one run, which is a process of its own.
struct Outcome {
  std::string sentence;  // that was violated first; empty: none
  std::string faults;    // all that were to happen
  std::string report;    // to print
};

double days_of(int64_t ns) { return static_cast<double>(ns) / 86'400e9; }

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  const int length = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<size_t>(length), '\0');
  std::snprintf(text.data(), text.size() + 1, format, values...);
  return text;
}

std::string report_of(const Options& options, World& world) {
  std::string text;
  for (const Violation& violation : world.violations()) {
    text += formatted("VIOLATED on day %.2f: %s: %s\n", days_of(violation.at_ns),
                      violation.sentence.c_str(), violation.detail.c_str());
  }
  const PodCounts& pods = world.pods().counts();
  const Statistics history = statistics();
  return text +
         formatted(
             "seed %lu, %ld days: %zu violations; pods %ld (plain %ld, exact %ld, compatible %ld, "
             "cold %ld, failed %ld), saves %ld, sweeps %ld and %ld failed, %ld processes killed; "
             "registry "
             "restarted %ld times, %ld blobs collected, %lu bytes; %lu and %lu requests; %lu "
             "switches, history %016lx\n",
             options.seed, options.days, world.violations().size(), pods.pods, pods.plain,
             pods.exact, pods.compatible, pods.cold, pods.failed, pods.saves, pods.sweeps,
             pods.failed_sweeps, pods.killed, world.registry_restarts(), world.blobs_collected(),
             world.registry.bytes(), world.api.requests, world.registry.requests(),
             history.switches, history.history);
}

std::string folder_of(uint64_t seed) {
  const bool memory = std::filesystem::is_directory("/dev/shm");
  return (memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
         "/compilecache-simulation-" + std::to_string(seed);
}

// Waits while another program runs this seed, in the same folder. Held until the program ends.
void lock_folder(uint64_t seed) {
  const std::string path = folder_of(seed) + ".lock";
  const int lock = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX) != 0) std::perror(path.c_str());
}

// Archives hold no path of a pod, but reports do: no process id in it.
std::string make_folder(uint64_t seed) {
  std::string folder = folder_of(seed);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::vector<Fault> faults_of(const Options& options) {
  std::vector<Fault> faults =
      options.faults.empty() ? draw_faults(options.days) : *parse_faults(options.faults);
  if (options.kinds.empty()) return faults;
  std::erase_if(faults, [&](const Fault& fault) {
    return std::find(options.kinds.begin(), options.kinds.end(), fault.kind) == options.kinds.end();
  });
  return faults;
}

// Does not return: threads of the run are still there.
[[noreturn]] void run(const Options& options, bool to_the_end,
                      const std::function<void(const Outcome&)>& ended) {
  // Always formatted, since a log that is written takes locks: reading it changes no history.
  auto& tail = *new LogTail(kLogLines, options.log);
  log_init(LogFormat::kText, LogLevel::kInfo);
  const std::string folder = make_folder(options.seed);
  run_scheduled({.seed = options.seed}, [&] {
    Outcome outcome;
    auto& world = *new World({options.settings, folder});  // its threads never end
    const auto end = [&] {
      outcome.report += report_of(options, world);
      ended(outcome);
      std::filesystem::remove_all(folder);
      ::_exit(0);
    };
    const std::vector<Fault> faults = faults_of(options);
    outcome.faults = to_text(faults);
    world.on_violation = [&](const Violation& violation) {
      if (!outcome.sentence.empty()) return;
      outcome.sentence = violation.sentence;
      outcome.report = tail.text();
      if (!to_the_end) end();
    };
    start_faults(world, faults);
    start_tenants(world, options.tenants, options.days);
    if (options.hostile) start_hostile_tenant(world);
    world.pass(options.days);
    end();
  });
  ::_exit(3);
}

std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(descriptor, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

void write_all(int descriptor, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(descriptor, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

// A program can run once, so each run is a process. A run that crashes violates that, too.
Outcome run_apart(const Options& options, bool to_the_end) {
  int ends[2];
  if (::pipe(ends) != 0) return {"the simulation needs a pipe", "", ""};
  const pid_t child = ::fork();
  if (child == 0) {
    run(options, to_the_end, [&](const Outcome& outcome) {
      write_all(ends[1], outcome.sentence + "\n" + outcome.faults + "\n" + outcome.report);
    });
  }
  ::close(ends[1]);
  const std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  const size_t first = text.find('\n');
  const size_t second = text.find('\n', first + 1);
  if (status != 0 || second == std::string::npos) return {"the run ends by itself", "", ""};
  return {text.substr(0, first), text.substr(first + 1, second - first - 1),
          text.substr(second + 1)};
}

int simulate(const Options& options) {
  lock_folder(options.seed);
  const Outcome outcome = run_apart(options, true);
  std::fputs(outcome.report.c_str(), stdout);
  if (outcome.sentence.empty()) return 0;
  std::printf("VIOLATED first: %s\n", outcome.sentence.c_str());
  if (options.shrink_tries == 0 || outcome.faults.empty()) return 1;
  Options again = options;
  again.log = false;
  const auto shortest = shrink(
      *parse_faults(outcome.faults),
      [&](const std::vector<Fault>& faults) {
        again.faults = faults.empty() ? "none" : to_text(faults);
        return run_apart(again, false).sentence == outcome.sentence;
      },
      options.shrink_tries);
  const std::string list = shortest.empty() ? "none" : to_text(shortest);
  std::printf("replay it: simulate --seed %lu --days %ld --tenants %ld --log --faults %s\n",
              options.seed, options.days, options.tenants, list.c_str());
  return 1;
}

}  // namespace
}  // namespace compilecache::simulation

int main(int argc, char** argv) {
  namespace sim = compilecache::simulation;
  sim::Options options;
  CLI::App app("Simulates an installation for some days, under one seed.", "simulate");
  app.add_option("--seed", options.seed, "decides everything")->capture_default_str();
  app.add_option("--days", options.days, "simulated days")->capture_default_str();
  app.add_option("--tenants", options.tenants, "namespaces with workloads")->capture_default_str();
  app.add_flag("!--no-hostile-tenant", options.hostile, "leave it out");
  app.add_option("--faults", options.faults,
                 "these in place of the seed's: SECONDS:KIND:AMOUNT,…, or none");
  app.add_option("--kinds", options.kinds, "of the seed's faults only those of these kinds")
      ->check(CLI::IsMember(sim::fault_kinds()))
      ->delimiter(',');
  app.add_option("--shrink", options.shrink_tries,
                 "after a violation, find a short list of faults that fails, in so many runs");
  app.add_option("--settings", options.settings, "the operator's settings")->capture_default_str();
  app.add_flag("--log", options.log, "print the log of the operator and the agents");
  CLI11_PARSE(app, argc, argv);
  if (const auto read = sim::parse_faults(options.faults); !read) {
    std::fprintf(stderr, "%s\n", read.error().message.c_str());
    return 2;
  }
  return sim::simulate(options);
}
