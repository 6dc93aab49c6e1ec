#pragma once

#include <iosfwd>
#include <string>
#include <vector>

// `kubectl compilecache inject`: files in, injected manifests on standard output, reports on
// standard error. Its decisions are in inject_manifests.hpp.

namespace compilecache::cli {

struct InjectOptions {
  std::vector<std::string> files;   // files, folders (recursively), "-": standard input
  std::vector<std::string> caches;  // more CompileCaches; the same
  std::string
      settings;  // a file; empty: the operator's where this is its image, else this release's
  std::string ns = "default";  // of manifests that name none
  std::string operator_namespace = "compilecache-system";
  std::string image;          // of loader and saver; empty: the settings', else this release's
  std::string agent_address;  // empty: the settings'; empty there too: agents use a volume's index
  std::string agent_ca_file;  // PEM
  std::string registry_address;  // of the installation's own registry; empty: there is none
};

// Returns the exit status: 0 when every annotated template was injected, 1 when one was left as it
// is (its report says why). It is 2 when something could not be read; then nothing is printed.
int run_inject(const InjectOptions& options, std::istream& in, std::ostream& out,
               std::ostream& reports);

}  // namespace compilecache::cli
