#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

// The last state that a reflector has seen of every object, as slim immutable structs.
//
//   Store<Pod> pods;
//   pods.add_handlers({.on_change = [&](const std::string& key, auto before, auto after) {
//     queue.add(key);                    // before is null: new; after is null: gone
//   }});
//   if (auto pod = pods.get("ml/web-1")) ...
//
//   Store<Pod>::Index by_owner(pods, [](const Pod& pod) { return pod.owner_uid; });
//   for (const auto& pod : by_owner.list(uid)) ...
//
// An index (like client-go's Indexer) finds objects without looking at all of them, as a filter
// would. It always shows the same state as the store. Keep it
// beside the store, in the same struct: it refers to the store and is destroyed before it.
//
// Handlers run in the reflector's thread, in the order of the watch, after the store shows the
// change. They must be quick (put a key into a work queue) and may read the store. An object that
// vanished while nobody was watching is reported gone with its last known state.
//
// Reading is thread-safe. replace(), upsert() and erase() are for one writer, the reflector.
// Objects are not null.

namespace compilecache::kube {

template <typename T>
class Store {
 public:
  using Ptr = std::shared_ptr<const T>;
  using Item = std::pair<std::string, Ptr>;

  using Handler = std::function<void(const std::string& key, const Ptr& before, const Ptr& after)>;
  struct Handlers {
    Handler on_change;
    // Called for objects that existed at the start (from the first list, or found by
    // add_handlers()), which are less urgent than changes. Empty: on_change.
    Handler on_start = {};
  };

  // The key under which an object is found; pure and quick.
  using ValueOf = std::function<std::string(const T&)>;

  class Index {
   public:
    // Also finds what is in the store already.
    Index(Store& store, ValueOf value_of)
        : store_(store), number_(store.add_index(std::move(value_of))) {}
    Index(const Index&) = delete;
    Index& operator=(const Index&) = delete;

    // Sorted by their keys.
    [[nodiscard]] std::vector<Ptr> list(std::string_view value) const {
      return store_.list_indexed(number_, value);
    }

   private:
    const Store& store_;
    const size_t number_;
  };

  // Calls the new handlers for all objects that are already there, before it returns.
  void add_handlers(Handlers handlers) {
    const MutexLock delivery(delivery_);
    if (!handlers.on_start) handlers.on_start = handlers.on_change;
    for (const auto& [key, object] : snapshot()) handlers.on_start(key, nullptr, object);
    handlers_.push_back(std::move(handlers));
  }

  // Null when there is none. The key is object_key() of kube/resource.hpp.
  [[nodiscard]] Ptr get(std::string_view key) const {
    const ReaderLock lock(mutex_);
    auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second;
  }

  [[nodiscard]] std::vector<Ptr> list() const {
    const ReaderLock lock(mutex_);
    std::vector<Ptr> objects;
    objects.reserve(objects_.size());
    for (const auto& [key, object] : objects_) objects.push_back(object);
    return objects;
  }

  // The objects of one namespace: those whose key begins with "namespace/".
  [[nodiscard]] std::vector<Ptr> list(std::string_view ns) const {
    const std::string prefix = std::string(ns) + "/";
    const ReaderLock lock(mutex_);
    std::vector<Ptr> objects;
    for (auto it = objects_.lower_bound(prefix);
         it != objects_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
      objects.push_back(it->second);
    }
    return objects;
  }

  // All objects with their keys, sorted by key.
  [[nodiscard]] std::vector<Item> snapshot() const {
    const ReaderLock lock(mutex_);
    return std::vector<Item>(objects_.begin(), objects_.end());
  }

  [[nodiscard]] size_t size() const {
    const ReaderLock lock(mutex_);
    return objects_.size();
  }

  // Whether the first whole list is in the store and the handlers were called for it.
  [[nodiscard]] bool has_synced() const { return synced_.load(); }

  // Makes `items` the whole content: all other objects are removed. Where several have
  // one key the last counts; null means gone.
  void replace(std::vector<Item> items) {
    const MutexLock delivery(delivery_);
    const auto by_key = [](const Item& a, const Item& b) { return a.first < b.first; };
    std::stable_sort(items.begin(), items.end(), by_key);
    for (const std::string& key : keys_without(items)) remove(key, nullptr);
    for (size_t i = 0; i < items.size(); ++i) {
      auto& [key, object] = items[i];
      const bool last = i + 1 == items.size() || items[i + 1].first != key;
      if (last && object != nullptr) put(key, std::move(object));
    }
    synced_ = true;
  }

  void upsert(const std::string& key, Ptr object) {
    const MutexLock delivery(delivery_);
    put(key, std::move(object));
  }

  // `last` is the state in which it went, null when that is not known.
  void erase(const std::string& key, Ptr last) {
    const MutexLock delivery(delivery_);
    remove(key, std::move(last));
  }

 private:
  using Objects = std::map<std::string, Ptr, std::less<>>;
  // Where an object is among all, which stays while it is there: no key is in memory twice.
  using Place = typename Objects::const_iterator;
  struct ByKey {
    bool operator()(const Place& a, const Place& b) const { return a->first < b->first; }
  };
  struct Indexed {
    ValueOf value_of;
    std::map<std::string, std::set<Place, ByKey>, std::less<>> places;

    void add(Place place) { places[value_of(*place->second)].insert(place); }
    void remove(Place place) {
      const auto found = places.find(value_of(*place->second));
      found->second.erase(place);
      if (found->second.empty()) places.erase(found);
    }
  };

  size_t add_index(ValueOf value_of) {
    const WriterLock lock(mutex_);
    Indexed& index = indexes_.emplace_back(Indexed{std::move(value_of), {}});
    for (auto place = objects_.cbegin(); place != objects_.cend(); ++place) index.add(place);
    return indexes_.size() - 1;
  }

  [[nodiscard]] std::vector<Ptr> list_indexed(size_t number, std::string_view value) const {
    const ReaderLock lock(mutex_);
    std::vector<Ptr> objects;
    const auto& places = indexes_[number].places;
    const auto found = places.find(value);
    if (found == places.end()) return objects;
    objects.reserve(found->second.size());
    for (const Place& place : found->second) objects.push_back(place->second);
    return objects;
  }

  void put(const std::string& key, Ptr object) REQUIRES(delivery_) {
    Ptr before;
    {
      const WriterLock lock(mutex_);
      const auto [place, fresh] = objects_.try_emplace(key);
      if (!fresh) {
        for (Indexed& index : indexes_) index.remove(place);
      }
      before = std::exchange(place->second, object);
      for (Indexed& index : indexes_) index.add(place);
    }
    for (const Handlers& handlers : handlers_) {
      (synced_ ? handlers.on_change : handlers.on_start)(key, before, object);
    }
  }

  // `last` is the object's final state, null when that is not known.
  void remove(const std::string& key, Ptr last) REQUIRES(delivery_) {
    {
      const WriterLock lock(mutex_);
      auto found = objects_.find(key);
      if (found == objects_.end()) return;
      if (last == nullptr) last = found->second;
      for (Indexed& index : indexes_) index.remove(found);
      objects_.erase(found);
    }
    for (const Handlers& handlers : handlers_) handlers.on_change(key, last, nullptr);
  }

  // The keys in the store that are not among the sorted items, or are there as gone.
  std::vector<std::string> keys_without(const std::vector<Item>& items) const {
    std::vector<std::string> keys;
    auto item = items.begin();
    const ReaderLock lock(mutex_);
    for (const auto& [key, object] : objects_) {
      while (item != items.end() && item->first < key) ++item;
      bool present = false;
      for (; item != items.end() && item->first == key; ++item) present = item->second != nullptr;
      if (!present) keys.push_back(key);
    }
    return keys;
  }

  mutable SharedMutex mutex_;  // never held while a handler runs
  Objects objects_ GUARDED_BY(mutex_);
  std::vector<Indexed> indexes_ GUARDED_BY(mutex_);
  Mutex delivery_;  // keeps handlers in order
  std::vector<Handlers> handlers_ GUARDED_BY(delivery_);
  std::atomic<bool> synced_{false};
};

}  // namespace compilecache::kube
