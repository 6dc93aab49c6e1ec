#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cluster.hpp"
#include "load.hpp"
#include "subject.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/paths.hpp"

// Measures the webhook beside a peer: README.md. Both run in every round, one after the other and
// in turns, each as a fresh process; what is printed is the minimum, median and maximum of the
// rounds.

namespace compilecache::bench {
namespace {

struct Options {
  std::string operator_program, peer_program, certificate, key;
  int rounds = 5;
  double seconds = 8;
  int connections = 8;
  int rate = 500;
  int caches = 200;
};

struct Measure {
  const char* name;
  const char* unit;
  bool more_is_better;
  double target;  // of the medians: ours divided by the peer's
};
const std::vector<Measure> kMeasures{{"closed loop", "answers/s", true, 2.5},
                                     {"closed loop p99", "ms", false, 0},
                                     {"closed loop CPU", "ms/request", false, 1.0 / 3},
                                     {"open loop p50", "ms", false, 0},
                                     {"open loop p99", "ms", false, 0.5},
                                     {"open loop CPU", "ms/request", false, 1.0 / 3},
                                     {"resident memory", "MB", false, 0.5},
                                     {"start to first answer", "ms", false, 0}};
using Numbers = std::map<std::string, std::vector<double>>;  // by measure

void must_be_good(const Subject& subject, const LoadResult& load) {
  if (load.failures == 0 && load.answers > 0) return;
  throw std::runtime_error(subject.name() + ": " + std::to_string(load.failures) + " of " +
                           std::to_string(load.answers + load.failures) + " requests failed");
}

void measure(Subject subject, const Options& options, const std::string& body, Numbers& numbers) {
  numbers["start to first answer"].push_back(subject.wait_until_serving(body));
  must_be_good(subject, closed_loop(subject.port(), body, options.connections, 1));  // to warm up
  double cpu = subject.cpu_seconds();
  const auto cpu_of = [&](const LoadResult& load) {
    const double before = std::exchange(cpu, subject.cpu_seconds());
    return (cpu - before) * 1000 / static_cast<double>(load.answers);
  };
  const LoadResult closed = closed_loop(subject.port(), body, options.connections, options.seconds);
  must_be_good(subject, closed);
  numbers["closed loop"].push_back(closed.per_second());
  numbers["closed loop p99"].push_back(closed.percentile(0.99));
  numbers["closed loop CPU"].push_back(cpu_of(closed));
  const LoadResult open = open_loop(subject.port(), body, options.rate, options.seconds);
  must_be_good(subject, open);
  numbers["open loop p50"].push_back(open.percentile(0.5));
  numbers["open loop p99"].push_back(open.percentile(0.99));
  numbers["open loop CPU"].push_back(cpu_of(open));
  numbers["resident memory"].push_back(subject.resident_megabytes());
}

Subject start_operator(const Options& options, const std::string& folder) {
  const uint16_t port = testing::free_port();
  return {
      "compilecache-operator",
      port,
      {options.operator_program, "--settings", testing::in_tree("config/settings.yaml"),
       "--kubeconfig", folder + "/kubeconfig", "--namespace", "compilecache-system", "--image",
       "compilecache:bench", "--agent-address", "10.96.0.17", "--listen-address", "127.0.0.1",
       "--webhook-port", std::to_string(port), "--agent-port", std::to_string(testing::free_port()),
       "--plain-port", std::to_string(testing::free_port())}};
}

Subject start_peer(const Options& options) {
  const uint16_t port = testing::free_port();
  return {"vault-k8s",
          port,
          {options.peer_program, "agent-inject", "-listen=127.0.0.1:" + std::to_string(port),
           "-tls-cert-file=" + options.certificate, "-tls-key-file=" + options.key,
           "-vault-address=https://vault.vault.svc:8200", "-vault-image=hashicorp/vault:1.19.0",
           "-log-format=json"}};
}

struct Spread {
  double low, median, high;
};
Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

void print(const Numbers& ours, const Numbers& peers) {
  std::printf("%-22s %-11s %28s %28s %7s  %s\n", "median (low to high)", "",
              "compilecache-operator", "vault-k8s", "ratio", "target");
  for (const Measure& measure : kMeasures) {
    const Spread our = spread(ours.at(measure.name));
    const Spread peer = spread(peers.at(measure.name));
    const double ratio = our.median / peer.median;
    std::string target = "-";
    if (measure.target > 0) {
      const bool reached =
          measure.more_is_better ? ratio >= measure.target : ratio <= measure.target;
      char text[64];
      std::snprintf(text, sizeof text, "%s %.2f: %s",
                    measure.more_is_better ? ">=" : "<=", measure.target,
                    reached ? "reached" : "missed");
      target = text;
    }
    const auto cell = [](const Spread& s) {
      char text[64];
      std::snprintf(text, sizeof text, "%.3g (%.3g to %.3g)", s.median, s.low, s.high);
      if (s.high >= 1000) {
        std::snprintf(text, sizeof text, "%.0f (%.0f to %.0f)", s.median, s.low, s.high);
      }
      return std::string(text);
    };
    std::printf("%-22s %-11s %28s %28s %7.2f  %s\n", measure.name, measure.unit, cell(our).c_str(),
                cell(peer).c_str(), ratio, target.c_str());
  }
}

int run(const Options& options) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("bench-webhook-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  testing::FakeApiServer server;
  std::ofstream(folder + "/kubeconfig") << kubeconfig(server);
  const std::string body = admission_review();
  std::printf("AdmissionReview of %zu bytes, %d CompileCaches, %d rounds, %u CPUs\n", body.size(),
              options.caches, options.rounds, std::thread::hardware_concurrency());
  Numbers ours, peers;
  fill(server, options.caches);
  for (int round = 0; round < options.rounds; ++round) {
    const auto measure_ours = [&] {
      serve_version(server);
      measure(start_operator(options, folder), options, body, ours);
    };
    const auto measure_peer = [&] {
      if (!options.peer_program.empty()) measure(start_peer(options), options, body, peers);
    };
    if (round % 2 == 0) measure_ours();
    measure_peer();
    if (round % 2 != 0) measure_ours();
  }
  std::filesystem::remove_all(folder);
  print(ours, options.peer_program.empty() ? ours : peers);
  return 0;
}

}  // namespace
}  // namespace compilecache::bench

int main(int argc, char** argv) {
  compilecache::bench::Options options;
  CLI::App app(
      "Measures the webhook beside vault-k8s; tests/bench/webhook/run.sh builds and runs all");
  app.add_option("--operator", options.operator_program, "compilecache-operator")->required();
  app.add_option("--peer", options.peer_program, "vault-k8s; without it ours alone is measured");
  app.add_option("--certificate", options.certificate, "PEM, that the peer serves");
  app.add_option("--key", options.key, "PEM, of the certificate");
  app.add_option("--rounds", options.rounds)->capture_default_str();
  app.add_option("--seconds", options.seconds, "of each loop")->capture_default_str();
  app.add_option("--rate", options.rate, "of the open loop, a second")->capture_default_str();
  app.add_option("--caches", options.caches, "CompileCaches in the cluster")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return compilecache::bench::run(options);
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "bench_webhook: %s\n", exception.what());
    return 1;
  }
}
