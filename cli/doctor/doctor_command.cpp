#include "cli/doctor/doctor_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/cluster_reading.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {

int run_doctor(const DoctorOptions& options, std::ostream& out, std::ostream& errors) {
  const auto cluster = connect(options.cluster);
  if (!cluster) return complain(cluster.error(), errors);
  const auto facts = read_cluster(*cluster, {options.operator_namespace, options.preflight});
  if (!facts) return complain(facts.error(), errors);
  const Findings findings = check_all(*facts);
  out << (options.output.empty() ? text_of(findings)
                                 : structured(json_of(findings), options.output));
  return any_failed(findings) ? 1 : 0;
}

}  // namespace compilecache::cli
