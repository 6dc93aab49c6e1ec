#include "tests/simulation/invariants/invariant.hpp"
#include "tests/simulation/os/scheduler.hpp"

// What holds of each load.

namespace compilecache::simulation {
namespace {

// Asking the operator, and ending what was begun, come on top of the budget.
constexpr int64_t kAround = 10 * kSecond;

class WithinBudget : public Invariant {
 public:
  WithinBudget() : Invariant("a load ends within its budget and 10 s") {}
  void load_ended(const EndedLoad& load) override {
    if (load.took_ns <= load.budget_ns + kAround) return;
    violated(load.pod, "took " + std::to_string(load.took_ns / kSecond) + " s of " +
                           std::to_string(load.budget_ns / kSecond) + " s");
  }
};

class NoWrongByte : public Invariant {
 public:
  NoWrongByte() : Invariant("a pod loads only bytes that a pod has written") {}
  void load_ended(const EndedLoad& load) override {
    for (const std::string& file : load.wrong_files) violated(load.pod, file);
  }
};

}  // namespace

std::unique_ptr<Invariant> loads_stay_within_their_budget() {
  return std::make_unique<WithinBudget>();
}

std::unique_ptr<Invariant> no_wrong_byte_is_loaded() { return std::make_unique<NoWrongByte>(); }

}  // namespace compilecache::simulation
