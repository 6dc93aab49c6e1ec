#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/clock.hpp"

// Shares the places of each store among the namespaces that use it, max-min fair. As long as a
// store has fewer places than are wanted, each namespace has as many as any other, or all that it
// wants. A crowd of one namespace costs another nothing but a bounded wait.
//
//   FairPlaces places(50, seconds(2));
//   const FairPlaces::Answer answer = places.take({"registry", "ml"}, pod_uid, now, seconds(10));
//   if (!answer.granted) ask_again_after(answer.due);
//   ...
//   places.leave("registry", pod_uid);
//
// Those who wait ask again and again; one that has not asked for 12 s waits no more. A place is
// free again with leave(), or when its time is over. A pod that is entitled to a place by
// its namespace's share, while others hold them all, gets one beyond the limit after
// `longest_wait`. With n namespaces a store then serves at most limit * (1 + ln n) at once.
//
// Not thread-safe: the caller's mutex guards it. No clock of its own.

namespace compilecache::controller {

class FairPlaces {
 public:
  struct Tenant {
    std::string store;  // its id
    std::string ns;
  };
  struct Answer {
    bool granted = false;
    // It waits for other namespaces, not for its own; then within `due` it gets a place, if it
    // asks.
    bool entitled = false;
    Duration due{0};
  };

  FairPlaces(size_t limit, Duration longest_wait) : limit_(limit), longest_wait_(longest_wait) {}

  // `who` gets a place, or waits for one. One that has a place keeps it, from now on for `time`.
  Answer take(const Tenant& tenant, const std::string& who, Monotonic now, Duration time);
  // `who` holds a place whatever the limit says: it was granted one before, by another leader say.
  void hold(const Tenant& tenant, const std::string& who, Monotonic until);
  // It needs no place any more, and waits for none.
  void leave(const std::string& store, const std::string& who);
  void leave_all(const std::string& who);
  // How many of the namespace wait for a place of the store.
  [[nodiscard]] size_t waiting(const Tenant& tenant, Monotonic now);

 private:
  struct Held {
    std::string ns;
    Monotonic until;
  };
  struct Waiting {
    std::string ns;
    Monotonic since, until;
  };
  struct Store {
    std::map<std::string, Held> held;        // by who
    std::map<std::string, Waiting> waiting;  // by who
  };
  static void expire(Store& store, Monotonic now);

  const size_t limit_;
  const Duration longest_wait_;
  std::map<std::string, Store> stores_;  // by id
};

// How many of `limit` places each namespace is to have, given how many it wants: max-min fair, at
// least one for each that wants any. Pure.
std::map<std::string, size_t> fair_shares(const std::map<std::string, size_t>& wanted,
                                          size_t limit);

}  // namespace compilecache::controller
