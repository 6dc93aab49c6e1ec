#include "agent/load/load_pace.hpp"

namespace compilecache::agent {

bool comes_too_late(std::chrono::duration<double> passed, std::chrono::duration<double> budget,
                    const archive::Progress& progress) {
  if (progress.total_compressed_bytes == 0 || passed < budget / 4) return false;
  const double done = static_cast<double>(progress.compressed_bytes) /
                      static_cast<double>(progress.total_compressed_bytes);
  return passed.count() > budget.count() * done;
}

}  // namespace compilecache::agent
