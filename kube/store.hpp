#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The last state that a reflector has seen of every object, as slim immutable structs.
//
//   Store<Pod> pods;
//   pods.add_handlers({.on_change = [&](const std::string& key, auto before, auto after) {
//     queue.add(key);                    // before is null: new; after is null: gone
//   }});
//   if (auto pod = pods.get("ml/web-1")) ...
//
// Handlers run in the reflector's thread, in the order of the watch, after the store shows the
// change; they must be quick (put a key into a work queue) and may read the store. An object that
// vanished while nobody was watching is reported gone with its last known state.
//
// Reading is thread-safe. replace(), upsert() and erase() are for one writer, the reflector.

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

  // Calls the new handlers for all objects that are already there, before it returns.
  void add_handlers(Handlers handlers) {
    std::lock_guard<std::recursive_mutex> delivery(delivery_);
    if (!handlers.on_start) handlers.on_start = handlers.on_change;
    for (const auto& [key, object] : snapshot()) handlers.on_start(key, nullptr, object);
    handlers_.push_back(std::move(handlers));
  }

  // Null when there is none. The key is object_key() of kube/resource.hpp.
  [[nodiscard]] Ptr get(std::string_view key) const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second;
  }

  [[nodiscard]] std::vector<Ptr> list() const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    std::vector<Ptr> objects;
    objects.reserve(objects_.size());
    for (const auto& [key, object] : objects_) objects.push_back(object);
    return objects;
  }

  // The objects of one namespace: those whose key begins with "namespace/".
  [[nodiscard]] std::vector<Ptr> list(std::string_view ns) const {
    const std::string prefix = std::string(ns) + "/";
    std::shared_lock<std::shared_mutex> lock(mutex_);
    std::vector<Ptr> objects;
    for (auto it = objects_.lower_bound(prefix);
         it != objects_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
      objects.push_back(it->second);
    }
    return objects;
  }

  // All objects with their keys, sorted by key.
  [[nodiscard]] std::vector<Item> snapshot() const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    return std::vector<Item>(objects_.begin(), objects_.end());
  }

  [[nodiscard]] size_t size() const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    return objects_.size();
  }

  // Whether the first whole list is in the store and the handlers were called for it.
  [[nodiscard]] bool has_synced() const { return synced_.load(); }

  // Makes `items` the whole content: objects that are not among them are gone. Where several have
  // one key the last counts; null means gone.
  void replace(std::vector<Item> items) {
    std::lock_guard<std::recursive_mutex> delivery(delivery_);
    const auto by_key = [](const Item& a, const Item& b) { return a.first < b.first; };
    std::stable_sort(items.begin(), items.end(), by_key);
    for (const std::string& key : keys_without(items)) erase(key, nullptr);
    for (size_t i = 0; i < items.size(); ++i) {
      auto& [key, object] = items[i];
      const bool last = i + 1 == items.size() || items[i + 1].first != key;
      if (last && object != nullptr) upsert(key, std::move(object));
    }
    synced_ = true;
  }

  void upsert(const std::string& key, Ptr object) {
    std::lock_guard<std::recursive_mutex> delivery(delivery_);
    Ptr before;
    {
      std::lock_guard<std::shared_mutex> lock(mutex_);
      Ptr& slot = objects_[key];
      before = slot;
      slot = object;
    }
    for (const Handlers& handlers : handlers_) {
      (synced_ ? handlers.on_change : handlers.on_start)(key, before, object);
    }
  }

  // `last` is the object's final state, null when that is not known.
  void erase(const std::string& key, Ptr last) {
    std::lock_guard<std::recursive_mutex> delivery(delivery_);
    {
      std::lock_guard<std::shared_mutex> lock(mutex_);
      auto found = objects_.find(key);
      if (found == objects_.end()) return;
      if (last == nullptr) last = found->second;
      objects_.erase(found);
    }
    for (const Handlers& handlers : handlers_) handlers.on_change(key, last, nullptr);
  }

 private:
  // The keys in the store that are not among the sorted items, or are there as gone.
  std::vector<std::string> keys_without(const std::vector<Item>& items) const {
    std::vector<std::string> keys;
    auto item = items.begin();
    std::shared_lock<std::shared_mutex> lock(mutex_);
    for (const auto& [key, object] : objects_) {
      while (item != items.end() && item->first < key) ++item;
      bool present = false;
      for (; item != items.end() && item->first == key; ++item) present = item->second != nullptr;
      if (!present) keys.push_back(key);
    }
    return keys;
  }

  mutable std::shared_mutex mutex_;  // guards objects_, never held while a handler runs
  std::map<std::string, Ptr, std::less<>> objects_;
  std::recursive_mutex delivery_;  // keeps handlers in order and guards handlers_
  std::vector<Handlers> handlers_;
  std::atomic<bool> synced_{false};
};

}  // namespace compilecache::kube
