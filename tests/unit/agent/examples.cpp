// The examples in the headers of agent/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <functional>

#include "agent/load/load.hpp"
#include "agent/load/subprocess.hpp"
#include "agent/load_race.hpp"
#include "agent/registry_access.hpp"
#include "agent/save/save_machine.hpp"
#include "agent/sweep/trust_gate.hpp"
#include "agent/warm_notes.hpp"
#include "agent/watched.hpp"
#include "store/access/open.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::agent::examples {

inline void load_race(const RaceCalls::Ask& ask_leader, const RaceCalls::Ask& ask_any_replica,
                      Patience patience, const RaceParts& parts) {
  const Result<std::string> answer = race({ask_leader, ask_any_replica}, patience, parts);
}

inline void subprocess(const api::AgentConfig& config, store::Store& store,
                       const Process& process) {
  const SubprocessEnd ended = run_in_subprocess([&](const std::function<void()>& leaving) {
    run_load(config, store, process, leaving, Predecessor::kNone);
  });
}

inline void machine(const saver::Settings& settings, const saver::State& state,
                    const saver::Input& input, const saver::Moment& moment) {
  auto [next, actions] = step(settings, state, input, moment);
}

inline bool watched(Watched& watched, const HeldFiles& head, const Notes& notes,
                    std::optional<WallTime> saved_at) {
  watched.look();
  SaveView view = watched.plan(head, notes, saved_at);
  if (view.anything_new() && view.busy.empty()) return true;
  watched.forget();
  if (*watched.differs()) watched.look();
  return false;
}

inline void trust_gate(const api::AgentConfig& config, store::Store& source,
                       const std::string& digest,
                       const std::function<void(const std::string&)>& copy) {
  const auto gate = TrustGate::of(config.sweep.trusted_keys);
  const auto may = gate->lets_in(source, digest);
  if (may && may->let_in) copy(digest);
}

inline void registry_access(const api::AgentConfig& config, const CoordinatorSource& coordinator) {
  if (const auto* registry = config.store->registry()) {
    auto store = store::open_registry(registry_options(config, *registry, coordinator));
  }
}

inline bool warm(const archive::Config& config, const archive::FileEntry& file) {
  WarmFiles warm = warm_files(config.notes, "vllm");
  if (!is_noted(warm, file)) return false;
  return true;
}

}  // namespace compilecache::agent::examples

#pragma GCC diagnostic pop
