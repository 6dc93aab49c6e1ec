// The promises of the planner of collections for any archives and limits, tried on made-up ones.
// RC_PARAMS="max_success=20000" tries more.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/time_format.hpp"
#include "operator/archives/collection_planner.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::hours;
using Archives = std::vector<api::CompileCacheArchive>;

const WallTime kNow = *parse_time("2026-05-01T12:00:00Z");

struct Made {
  Archives archives;
  api::CompileCacheSpec::Retention retention;
  std::set<std::string> in_use;
  std::vector<StaleArchive> stale;

  [[nodiscard]] bool is_stale(const api::CompileCacheArchive& archive) const {
    return std::any_of(stale.begin(), stale.end(),
                       [&](const auto& one) { return one.name == archive.metadata.name; });
  }
  [[nodiscard]] bool used(const api::CompileCacheArchive& archive) const {
    return in_use.contains(archive.metadata.name);
  }
};

// Small ranges, so that times, products and sizes meet often.
Made make() {
  Made made;
  const int count = *rc::gen::inRange(0, 14);
  for (int i = 0; i < count; ++i) {
    api::CompileCacheArchive archive;
    archive.metadata.name = "a" + std::to_string(i);
    archive.metadata.uid = "uid-" + archive.metadata.name;
    archive.metadata.creation_time = format_time(kNow - hours(*rc::gen::inRange(0, 40)));
    archive.metadata.deleting = *rc::gen::inRange(0, 10) == 0;
    if (*rc::gen::inRange(0, 8) != 0) {
      archive.key[api::kGpuProductPart] =
          *rc::gen::element<std::string>("H100", "A100", "cpu-amd64");
      archive.head.manifest_digest = "sha256:" + archive.metadata.name;
      archive.head.saved_at = format_time(kNow - hours(*rc::gen::inRange(0, 40)));
      archive.head.compressed_bytes = *rc::gen::inRange(0, 100);
    }
    if (*rc::gen::inRange(0, 2) == 0) {
      archive.last_used_time = format_time(kNow - hours(*rc::gen::inRange(0, 40)));
    }
    if (*rc::gen::inRange(0, 4) == 0) made.in_use.insert(archive.metadata.name);
    made.archives.push_back(archive);
  }
  made.retention.unused_for = hours(*rc::gen::inRange(1, 50));
  made.retention.keep_per_gpu = *rc::gen::inRange(1, 6);
  made.retention.max_total_size = static_cast<uint64_t>(*rc::gen::inRange(0, 500));
  made.stale = plan_collection(made.archives, made.retention, made.in_use, kNow);
  return made;
}

// Those of a product that are not being deleted anyhow, the last saved first.
using Products = std::map<std::string, Archives>;
Products products(const Archives& archives) {
  Products products;
  for (const auto& archive : archives) {
    if (archive.metadata.deleting || !archive.head.exists()) continue;
    products[archive.key.at(api::kGpuProductPart)].push_back(archive);
  }
  for (auto& [name, members] : products) {
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
      if (a.head.saved_at != b.head.saved_at) return a.head.saved_at > b.head.saved_at;
      return a.metadata.name < b.metadata.name;
    });
  }
  return products;
}

Products remaining(const Made& made) {
  Archives rest;
  for (const auto& archive : made.archives) {
    if (!made.is_stale(archive)) rest.push_back(archive);
  }
  return products(rest);
}

TEST(CollectionProperties, NeverWhatIsInUse) {
  RC_ASSERT(rc::check([] {
    const Made made = make();
    for (const auto& stale : made.stale) RC_ASSERT(!made.in_use.contains(stale.name));
  }));
}

TEST(CollectionProperties, NeverTheNewestOfAProductWhileAnOlderOneStays) {
  RC_ASSERT(rc::check([] {
    const Made made = make();
    const Products left = remaining(made);
    for (const auto& [product, members] : products(made.archives)) {
      if (made.is_stale(members.front())) RC_ASSERT(!left.contains(product));
    }
  }));
}

// An archive over a limit has a reason to stay: it is in use, or the newest of those that stay.
TEST(CollectionProperties, TheLimitsAreMet) {
  RC_ASSERT(rc::check([] {
    const Made made = make();
    int64_t total = 0;
    bool could_shrink = false;
    for (const auto& [product, members] : remaining(made)) {
      for (size_t i = 0; i < members.size(); ++i) {
        const bool must_stay = made.used(members[i]) || (i == 0 && members.size() > 1);
        total += members[i].head.compressed_bytes;
        could_shrink = could_shrink || (!must_stay && members[i].head.compressed_bytes > 0);
        if (last_used(members[i]) < kNow - made.retention.unused_for) RC_ASSERT(must_stay);
        if (i >= static_cast<size_t>(made.retention.keep_per_gpu)) RC_ASSERT(made.used(members[i]));
      }
    }
    if (total > static_cast<int64_t>(made.retention.max_total_size)) RC_ASSERT(!could_shrink);
  }));
}

TEST(CollectionProperties, NothingGoesWithoutAReasonOrTwice) {
  RC_ASSERT(rc::check([] {
    const Made made = make();
    int64_t total = 0;
    for (const auto& archive : made.archives) {
      if (!archive.metadata.deleting) total += archive.head.compressed_bytes;
    }
    const Products all = products(made.archives);
    std::set<std::string> names;
    for (const StaleArchive& stale : made.stale) {
      RC_ASSERT(names.insert(stale.name).second);
      const auto archive =
          std::find_if(made.archives.begin(), made.archives.end(),
                       [&](const auto& one) { return one.metadata.name == stale.name; });
      RC_ASSERT(archive != made.archives.end());
      RC_ASSERT(!archive->metadata.deleting);
      RC_ASSERT(stale.uid == archive->metadata.uid);
      if (stale.reason == StaleReason::kUncommitted) {
        RC_ASSERT(!archive->head.exists() && archive->lock.holder.empty());
        RC_ASSERT(last_used(*archive) < kNow - made.retention.incomplete_timeout);
      } else if (stale.reason == StaleReason::kUnused) {
        RC_ASSERT(last_used(*archive) < kNow - made.retention.unused_for);
      } else if (stale.reason == StaleReason::kTooManyOfProduct) {
        const Archives& members = all.at(archive->key.at(api::kGpuProductPart));
        const auto place = std::find_if(members.begin(), members.end(), [&](const auto& one) {
          return one.metadata.name == stale.name;
        });
        RC_ASSERT(place - members.begin() >= made.retention.keep_per_gpu);
      } else {
        RC_ASSERT(total > static_cast<int64_t>(made.retention.max_total_size));
      }
      total -= stale.bytes;
    }
  }));
}

}  // namespace
}  // namespace compilecache::controller
