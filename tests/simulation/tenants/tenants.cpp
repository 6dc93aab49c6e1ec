#include "tests/simulation/tenants/tenants.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace compilecache::simulation {
namespace {

int64_t some(Chance& chance, int64_t least, int64_t more, int64_t unit) {
  return (least + static_cast<int64_t>(chance.below(static_cast<uint64_t>(more)))) * unit;
}

void run_pods(World& world, Chance& chance, const std::string& ns, const std::string& cache,
              const std::string& image) {
  const std::string node = chance.one_in(2) ? "n-h100" : "n-a100";
  const uint64_t pods = 1 + chance.below(4);
  for (uint64_t i = 0; i < pods; ++i) {
    PodOrder order{ns, cache, image, node};
    order.lives_ns = some(chance, 1, 20, kHour);
    start_thread(kWorld, "pod of " + ns, [&world, order] { world.pods().run(order); });
  }
}

void live(World& world, const std::string& ns, const std::string& name, int64_t life) {
  Chance chance(ns + "/" + name);
  world.create_cache(ns, name, chance.one_in(2) ? "24h" : "168h");
  const int64_t end = now_ns() + life;
  sleep_for_ns(60 * kSecond);
  int64_t next_image = now_ns();
  int version = 0;
  while (now_ns() < end) {
    if (now_ns() >= next_image) {
      ++version;
      next_image = now_ns() + 7 * kDay;
    }
    run_pods(world, chance, ns, name, name + ":" + std::to_string(version));
    sleep_for_ns(some(chance, 2, 10, kHour));
  }
  world.delete_cache(ns, name);
}

constexpr uint64_t kAtOnce = 12, kLater = 12;
constexpr int64_t kLaterWithin = 300;

const api::CompileCacheArchive* pick(const World& world, uint64_t which) {
  std::vector<const api::CompileCacheArchive*> present;
  for (const auto& [key, archive] : world.archives()) {
    if (archive.head.exists() && archive.distrusted.empty()) present.push_back(&archive);
  }
  return present.empty() ? nullptr : present[which % present.size()];
}

}  // namespace

void start_crowd(World& world, uint64_t which, bool damaged) {
  const api::CompileCacheArchive* archive = pick(world, which);
  if (archive == nullptr) return;
  if (damaged) world.registry.damage(archive->head.blobs.back());
  Chance chance("crowd " + std::to_string(which));
  PodOrder order{archive->metadata.ns, archive->cache, archive->key.at(api::kImagePart),
                 "n-" + archive->key.at(api::kGpuProductPart)};
  if (!damaged && which % 3 == 0) order.image += "-next";
  order.lives_ns = 600 * kSecond;
  for (uint64_t i = 0; i < kAtOnce + kLater; ++i) {
    const int64_t after = i < kAtOnce && !damaged ? 0 : some(chance, 0, kLaterWithin, kSecond);
    start_thread(kWorld, "pod of a crowd", [&world, order, after] {
      sleep_for_ns(after);
      world.pods().run(order);
    });
  }
}

void start_tenants(World& world, int64_t tenants, int64_t days) {
  for (int64_t i = 0; i < tenants; ++i) {
    start_thread(kWorld, "tenant", [&world, i, days] {
      const std::string ns = "team-" + std::to_string(i);
      world.api.objects.put(kNamespaces, {{"metadata", {{"name", ns}}}});
      Chance chance(ns);
      for (int made = 0;; ++made) {
        const int64_t life = i % 2 == 0 ? some(chance, 2, 6, kDay) : (days + 1) * kDay;
        live(world, ns, "cache-" + std::to_string(made), life);
      }
    });
  }
}

}  // namespace compilecache::simulation
