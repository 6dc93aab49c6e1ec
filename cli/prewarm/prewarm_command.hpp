#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

// `kubectl compilecache prewarm WORKLOAD|-f FILE`: before a roll-out, one pod of the new template
// on each kind of GPU, until its archive is committed. Its decisions are in prewarm_plan.hpp,
// prewarm_pod.hpp and prewarm_watch.hpp.

namespace compilecache::cli {

struct PrewarmOptions {
  std::string workload;            // "deployment/web"; empty: those of `files`
  std::vector<std::string> files;  // manifests, folders, "-"
  std::vector<std::string> images;
  std::vector<std::string> products;
  bool all_products = false, force = false;
  std::chrono::seconds timeout = std::chrono::minutes(30);          // until the archive is there
  std::chrono::seconds schedule_timeout = std::chrono::minutes(5);  // until a node takes the pod
  std::string ns;                                                   // empty: the kubeconfig's
  std::string kubeconfig, context;
  std::string settings;  // empty: the operator's, where they can be read, else the release's
  std::string operator_namespace = "compilecache-system";
  std::string output;  // "", "json"
};

// Makes pods and takes them away again, also when SIGINT, SIGTERM or SIGHUP ends it. Progress goes
// to `errors`, the result to `out`. Returns the exit status: 0 when all archives are there, 1
// when one is not, 2 when something cannot be read, 128 and the signal's number after a
// signal.
int run_prewarm(const PrewarmOptions& options, std::istream& in, std::ostream& out,
                std::ostream& errors);

}  // namespace compilecache::cli
