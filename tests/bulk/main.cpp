#include <iostream>

#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/settings/injection_settings.hpp"
#include "tests/bulk/bulk.hpp"
#include "tests/support/paths.hpp"

// bulk_injection FOLDER...: what the injection makes of every pod template in these folders, asked
// of the API server that $KUBECONFIG names. Exit status 1 when it makes any of them worse.

int main(int argc, char** argv) {
  using namespace compilecache;
  const auto settings = controller::load_settings(testing::in_tree("config/settings.yaml"));
  const auto config = kube::load_config({});
  if (argc < 2 || !settings || !config) {
    std::cerr << "usage: KUBECONFIG=... bulk_injection FOLDER...\n"
              << (settings ? "" : settings.error().message + "\n")
              << (config ? "" : config.error().message + "\n");
    return 2;
  }
  const testing::DryRun dry_run(kube::Client(*kube::make_transport(*config)));
  const auto result = testing::run_bulk(
      {argv + 1, argv + argc},
      controller::injection_settings(*settings, "compilecache-system", "compilecache:bulk"),
      dry_run, std::cout);
  if (!result) {
    std::cerr << "bulk_injection: " << result.error().message << "\n";
    return 2;
  }
  std::cout << result->files << " files (" << result->unreadable << " no manifests), "
            << result->templates << " pod templates: " << result->accepted_before
            << " accepted before, " << result->accepted_after << " after; " << result->worse
            << " worse; " << result->injected_twice << " second injections not empty\n";
  for (const auto& [reason, count] : result->reasons) {
    std::cout << "  " << reason << ": " << count << "\n";
  }
  return result->good() ? 0 : 1;
}
