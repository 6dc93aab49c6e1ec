#include <gtest/gtest.h>

#include "operator/archives/archive_trust.hpp"
#include "tests/unit/operator/control_fixture.hpp"

// Archives that make pods crash: reported, swept, remembered.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using test::ControlTest;
using test::kArchives;
using test::kCaches;
using test::kJobs;

TEST_F(ControlTest, AnArchiveThatMakesPodsCrashIsToldInItsStatusAndAnEvent) {
  const std::string manifest = "sha256:" + std::string(64, '2');
  const json object = server.put(
      kArchives, {{"metadata", {{"name", "transformer-1"}, {"namespace", "ml"}}},
                  {"spec", {{"cache", "transformer"}, {"key", {{"GPUProduct", "H100"}}}}},
                  {"status",
                   {{"head", {{"manifestDigest", manifest}, {"generation", 2}}},
                    {"lastUsedTime", format_time(clock.wall())}}}});
  stores.archives.upsert("ml/transformer-1", std::make_shared<const api::CompileCacheArchive>(
                                                 api::parse_archive(object).value()));
  crashes.loaded("ml/transformer-1", manifest, "uid");
  for (int end = 1; end <= 3; ++end) crashes.seen({"uid", "web-1", {{"app", end, true}}});
  reconcile_and_see();
  const json condition = all(kArchives)[0].at("/status/conditions/0"_json_pointer);
  EXPECT_EQ(condition.at("type"), "Suspect");
  EXPECT_EQ(condition.at("reason"), "PodsCrashed");
  ASSERT_FALSE(events.records.empty());
  EXPECT_EQ(events.records[0].reason, "ArchiveSuspect");
  EXPECT_NE(events.records[0].message.find("web-1"), std::string::npos);
}

TEST_F(ControlTest, ASweepFollowsWhenAnArchiveMakesPodsCrash) {
  put_claim();
  reconcile_and_see();
  report();
  for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  ASSERT_TRUE(all(kJobs).empty());
  const std::string manifest = "sha256:" + std::string(64, '2');
  const json object = server.put(
      kArchives, {{"metadata", {{"name", "transformer-1"}, {"namespace", "ml"}}},
                  {"spec", {{"cache", "transformer"}, {"key", {{"GPUProduct", "H100"}}}}},
                  {"status",
                   {{"head", {{"manifestDigest", manifest}, {"generation", 2}}},
                    {"lastUsedTime", format_time(clock.wall())}}}});
  stores.archives.upsert("ml/transformer-1", std::make_shared<const api::CompileCacheArchive>(
                                                 api::parse_archive(object).value()));
  crashes.loaded("ml/transformer-1", manifest, "uid");
  for (int end = 1; end <= 3; ++end) crashes.seen({"uid", "web-1", {{"app", end, true}}});
  for (int i = 0; i < 6; ++i) reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "the volume's index still names it";
}

TEST_F(ControlTest, WhatMadePodsCrashIsRememberedInTheStatusUntilItIsAcquitted) {
  const std::string manifest = "sha256:" + std::string(64, '2');
  put_archive("transformer-1", hours(1));
  api::CompileCacheArchive archive = *stores.archives.get("ml/transformer-1");
  archive.head.manifest_digest = manifest;
  mark_crashing(archive, manifest, {"web-1"}, format_time(clock.wall()));
  const auto show = [&] {
    stores.archives.upsert("ml/transformer-1",
                           std::make_shared<const api::CompileCacheArchive>(archive));
  };
  show();
  const auto remembered = [&] {
    reconcile_and_see();
    return server.objects(kCaches)
        .at("ml/transformer")
        .at("status")
        .value("crashing", json::array());
  };
  EXPECT_EQ(remembered(), json::array({manifest}));
  clear_distrust(archive, format_time(clock.wall()));
  archive.head.manifest_digest = "sha256:" + std::string(64, '3');
  show();
  EXPECT_EQ(remembered(), json::array({manifest})) << "pods that loaded it may still run";
  crashes.loaded("ml/transformer-1", manifest, "with");
  for (const char* without : {"cold-1", "cold-2"}) {
    crashes.loaded("ml/transformer-1", "", without);
    crashes.seen({without, without, {{"app", 1, true}}});
  }
  EXPECT_EQ(remembered(), json::array()) << "pods crash without it as well";
}

}  // namespace
}  // namespace compilecache::controller
