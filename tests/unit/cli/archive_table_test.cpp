#include "cli/archives/archive_table.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/time_format.hpp"
#include "cli/cluster/cluster.hpp"
#include "cli/text/page.hpp"

namespace compilecache::cli {
namespace {

using ::testing::HasSubstr;

api::CompileCacheArchive archive_of_llama() {
  api::CompileCacheArchive archive;
  archive.metadata.ns = "ml";
  archive.metadata.name = "llama-3f2a91";
  archive.cache = "llama";
  archive.key = {{"GPUProduct", "NVIDIA-H100-80GB-HBM3"}, {"Image", "example.com/app:1"}};
  archive.head = {.manifest_digest = "sha256:77",
                  .generation = 7,
                  .compressed_bytes = 3 << 20,
                  .files = 128,
                  .saved_at = "2026-11-20T12:00:00Z",
                  .saved_by = "web-1"};
  archive.last_used_time = "2026-11-24T11:00:00Z";
  archive.effect.full = 2;
  return archive;
}

const WallTime kNow = *parse_time("2026-11-24T12:00:00Z");

TEST(ArchiveTable, SaysWhatAnArchiveIsOfAndWhatItIsWorth) {
  const std::string table = table_of({archive_of_llama()}, kNow, false);
  for (const char* told : {"llama-3f2a91", "NVIDIA-H100-80GB-HBM3", "3Mi", "example.com/app:1",
                           "  4d ", "  60m ", "2 full"}) {
    EXPECT_THAT(table, HasSubstr(told));
  }
  EXPECT_EQ(table.find("CACHE"), 0u) << "as kubectl's tables, it begins at the left";
  EXPECT_EQ(table.find("sha256:77"), std::string::npos);
  EXPECT_THAT(table_of({archive_of_llama()}, kNow, true), HasSubstr("sha256:77"));
}

TEST(ArchiveTable, ASuspectArchiveIsCalledSo) {
  auto archive = archive_of_llama();
  EXPECT_EQ(state_of(archive), "");
  archive.conditions.push_back({.type = "Suspect", .status = "True"});
  EXPECT_EQ(state_of(archive), "Suspect");
  EXPECT_THAT(table_of({archive}, kNow, false), HasSubstr("Suspect"));
  EXPECT_EQ(json_of({archive})[0]["state"], "Suspect");
}

TEST(ArchiveTable, WhatWasNeverUsedHasNoAge) {
  auto archive = archive_of_llama();
  archive.last_used_time = "";
  EXPECT_THAT(table_of({archive}, kNow, false), HasSubstr("4d   -  "));
}

TEST(AgeText, IsInOneUnitAndNeverBelowZero) {
  EXPECT_EQ(age_text("2026-11-24T11:59:00Z", kNow), "60s");
  EXPECT_EQ(age_text("2026-11-24T11:00:00Z", kNow), "60m");
  EXPECT_EQ(age_text("2026-11-23T12:00:00Z", kNow), "24h");
  EXPECT_EQ(age_text("2026-11-20T12:00:00Z", kNow), "4d");
  EXPECT_EQ(age_text("2027-11-20T12:00:00Z", kNow), "0s");
  EXPECT_EQ(age_text("1678-01-01T00:00:00Z", kNow), "127431d");
  EXPECT_EQ(age_text("yesterday", kNow), "-");
}

TEST(ArchiveName, IsACacheAndAnArchive) {
  const auto both = parse_archive_name("llama/llama-3f2a91");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->cache, "llama");
  EXPECT_EQ(both->name, "llama-3f2a91");
  EXPECT_THAT(parse_archive_name("llama-3f2a91").error().message,
              HasSubstr("too: CACHE/llama-3f2a91"));
  for (const char* wrong : {"/x", "x/", "a/b/c"}) {
    const auto name = parse_archive_name(wrong);
    ASSERT_FALSE(name) << wrong;
    EXPECT_THAT(name.error().message, HasSubstr("write CACHE/ARCHIVE"));
  }
}

}  // namespace
}  // namespace compilecache::cli
