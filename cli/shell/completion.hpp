#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/cluster/cluster.hpp"

namespace CLI {
class App;
}

// Candidates for a word that Tab completes, in the protocol of cobra, which kubectl's completion
// reads: a line for each with its meaning behind a tab, and a last line ":BITS".
//
//   kubectl-compilecache __complete archives ll     ->   "llama\n:4\n"
//
// Source: cobra's shell_completions.md, and kubectl's `kubectl_complete-NAME`.

namespace compilecache::cli {

// What there is a name of in the cluster, or in the kubeconfig (contexts).
enum class NameKind { kCache, kArchive, kPod, kNamespace, kContext, kGpuProduct, kWorkload };

struct Candidate {
  std::string word, about;
};

// The names of that kind as the user of a command line would write them. `workload_kind`: of
// kWorkload, "deployment". Failures are no names.
using NameSource = std::function<std::vector<Candidate>(
    NameKind kind, const ClusterOptions& cluster, const std::string& workload_kind)>;

// `words` are those behind the program's name; the last, perhaps empty, is to be completed. Pure
// but for `names`.
std::string complete(const CLI::App& app, const std::vector<std::string>& words,
                     const NameSource& names);

}  // namespace compilecache::cli
