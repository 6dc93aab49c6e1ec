#pragma once

#include <functional>
#include <optional>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/archives/archive_client.hpp"

// Keeps an archive that was quarantined from being handed out later than a minute after that, by a
// replica whose watch of the archives is dead.
//
//   const FreshArchives fresh({client, heard, FreshArchives::Ask::kAlways}, clock);
//   if (Status ok = fresh.confirm(caller, situation, answer); !ok) ...  // ask somebody else
//
// A replica that does not lead asks the API server for the archive that it is about to hand out.
// Without an answer it uses what its watch has shown, if the watch was alive within the last
// minute: while etcd is down nobody can quarantine anything either. The leader asks only when its
// watch has been silent for longer. Thread-safe; blocks on the API server.

namespace compilecache::controller {

class FreshArchives {
 public:
  enum class Ask { kAlways, kWhenSilent };
  struct Parts {
    ArchiveClient& client;                            // with a short timeout
    std::function<std::optional<Monotonic>()> heard;  // see ClusterWatch::archives_heard()
    Ask ask = Ask::kAlways;
  };

  FreshArchives(Parts parts, const Clock& clock) : parts_(std::move(parts)), clock_(clock) {}

  // Makes sure that what `answer` hands out is not quarantined; decides again if the API server
  // has another state of that archive. kUnavailable: nobody knows.
  Status confirm(const Caller& caller, LoadSituation& situation, api::LoadAnswer& answer) const;

 private:
  [[nodiscard]] bool watch_is_alive() const;

  const Parts parts_;
  const Clock& clock_;
};

}  // namespace compilecache::controller
