#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tests/support/dry_run.hpp"
#include "webhook/settings.hpp"

// The injection on whatever manifests there are: every pod template in a folder is annotated,
// injected, injected once more, and shown to a real API server before and after (dry run).

namespace compilecache::testing {

struct BulkResult {
  int files = 0, unreadable = 0;  // those that are no manifests: templates of Helm, say
  int templates = 0;
  int accepted_before = 0, accepted_after = 0;
  std::map<std::string, int> reasons;  // "injected": 12, "mount_conflict": 1
  int worse = 0;                       // accepted before, and refused or otherwise worse after
  int injected_twice = 0;              // the second injection was not empty

  [[nodiscard]] bool good() const { return worse == 0 && injected_twice == 0; }
};

// A line for each template, and one for each file that cannot be read. kIo when a folder cannot be.
Result<BulkResult> run_bulk(const std::vector<std::string>& folders,
                            const webhook::InjectionSettings& settings, const DryRun& dry_run,
                            std::ostream& lines);

}  // namespace compilecache::testing
