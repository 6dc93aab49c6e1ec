#include <gtest/gtest.h>

#include "base/base64.hpp"
#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/json_writer.hpp"
#include "base/printable.hpp"
#include "base/quantity.hpp"
#include "base/random.hpp"
#include "base/sha256.hpp"
#include "base/sha256_pair.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"

namespace compilecache {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Error, WhatTheSystemSaidStaysWithIt) {
  const Error full = errno_error("writing", ENOSPC);
  EXPECT_EQ(full.os_error, ENOSPC);
  EXPECT_EQ(full.with("saving").about("sha256:1").os_error, ENOSPC);
  EXPECT_EQ(Error({ErrorCode::kIo, full.message}).os_error, 0) << "it is not read out of a message";
}

TEST(Error, TheBlobThatItIsAboutStaysWithIt) {
  const Error error{ErrorCode::kCorrupt, "cut off"};
  EXPECT_EQ(error.with("loading").digest, "");
  const Error told = error.about("sha256:1").with("loading").about("sha256:2");
  EXPECT_EQ(told.digest, "sha256:1") << "who was nearest knows best";
  EXPECT_EQ(told.message, "loading: cut off");
}

TEST(Duration, ReadsWhatKubernetesWrites) {
  EXPECT_EQ(parse_duration("30s").value(), seconds(30));
  EXPECT_EQ(parse_duration("1h30m").value(), minutes(90));
  EXPECT_EQ(parse_duration("720h").value(), hours(720));
  EXPECT_EQ(parse_duration("1.5s").value(), milliseconds(1500));
  EXPECT_EQ(parse_duration("250ms").value(), milliseconds(250));
  EXPECT_EQ(parse_duration("0").value(), milliseconds(0));
}

TEST(Duration, RefusesTheRestAndSaysHowToWriteIt) {
  for (const char* text : {"", "30", "s", "-1s", "30d", "1..2s", "9999999999h"}) {
    const auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find("like 30s"), std::string::npos);
  }
}

TEST(Duration, FormatsAndReadsBack) {
  for (const char* text : {"0s", "30s", "1h30m", "720h", "1s500ms"}) {
    EXPECT_EQ(format_duration(parse_duration(text).value()), text);
  }
}

TEST(Quantity, ReadsBinaryDecimalMilliAndExponent) {
  EXPECT_EQ(parse_bytes("1Gi").value(), 1073741824U);
  EXPECT_EQ(parse_bytes("1.5Ki").value(), 1536U);
  EXPECT_EQ(parse_bytes("2G").value(), 2000000000U);
  EXPECT_EQ(parse_bytes("2e3").value(), 2000U);
  EXPECT_EQ(parse_quantity_milli("250m").value(), 250);
  EXPECT_EQ(parse_quantity_milli("8").value(), 8000);
  for (const char* text :
       {"", "Gi", "-1", "1Zi", "1 Gi", ".", "+", "1..5", "1.2.3", "1e", "1e+-3", "1e3Gi", "e3",
        "1mi", "--0", "0x10", "1e99999999999999999999", "99999999Pi"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

// As apimachinery's ParseQuantity reads them.
TEST(Quantity, ReadsAllThatKubernetesWrites) {
  EXPECT_EQ(parse_bytes("10Pi").value(), 10UL << 50);
  EXPECT_EQ(parse_bytes("1Ei").value(), 1UL << 60);
  EXPECT_EQ(parse_bytes("1.5Ei").value(), 3UL << 59);
  EXPECT_EQ(parse_bytes("2E").value(), 2'000'000'000'000'000'000U);
  EXPECT_EQ(parse_bytes("2E3").value(), 2000U);
  EXPECT_EQ(parse_bytes("2e+3").value(), 2000U);
  EXPECT_EQ(parse_bytes("2000e-3").value(), 2U);
  EXPECT_EQ(parse_bytes("+5").value(), 5U);
  EXPECT_EQ(parse_bytes("-0").value(), 0U);
  EXPECT_EQ(parse_bytes(".5Ki").value(), 512U);
  EXPECT_EQ(parse_bytes("5.").value(), 5U);
  EXPECT_EQ(parse_bytes("9007199254740993").value(), 9007199254740993U) << "no double holds it";
  EXPECT_EQ(parse_quantity_milli("1n").value(), 1);
  EXPECT_EQ(parse_quantity_milli("1500u").value(), 2);
  EXPECT_EQ(parse_quantity_milli("0.0000000000000000000000000000001").value(), 1);
  EXPECT_EQ(parse_quantity_milli("0e999999999").value(), 0);
}

// Kubernetes caps them at the largest number of 64 bits, too.
TEST(Quantity, WhatIsTooLargeIsTheLargest) {
  for (const char* text :
       {"8Ei", "99999999Pi", "1e30", "1e999999999", "123456789012345678901234567890Ei"}) {
    EXPECT_EQ(parse_quantity_milli(text).value(), INT64_MAX) << text;
    EXPECT_FALSE(parse_bytes(text)) << "our own amounts are refused: " << text;
    EXPECT_FALSE(parse_quantity(text)) << text;
  }
  EXPECT_EQ(parse_quantity_milli("10Pi").value(), INT64_MAX);
  EXPECT_EQ(parse_quantity_milli("8Pi").value(), (int64_t{8} << 50) * 1000);
}

TEST(Quantity, FormatsForPeople) {
  EXPECT_EQ(format_bytes(0), "0");
  EXPECT_EQ(format_bytes(1536), "1.5Ki");
  EXPECT_EQ(format_bytes(1073741824), "1Gi");
}

TEST(Sha256, IsTheStandardOne) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  hash.update(std::string_view("a"));
  hash.update(std::string_view("bc"));
  EXPECT_EQ(hash.finish_hex(), sha256_hex("abc"));
  EXPECT_EQ(hash.finish_hex(), sha256_hex(""));
}

TEST(TimeFormat, RoundTripsAndReadsOffsetsAndFractions) {
  const WallTime time = parse_time("2024-02-29T12:34:56Z").value();
  EXPECT_EQ(format_time(time), "2024-02-29T12:34:56Z");
  EXPECT_EQ(parse_time("2024-02-29T14:34:56+02:00").value(), time);
  EXPECT_EQ(parse_time("2024-02-29T12:34:56.250Z").value(), time + milliseconds(250));
  EXPECT_EQ(format_micro_time(time + milliseconds(250)), "2024-02-29T12:34:56.250000Z");
  EXPECT_FALSE(parse_time("yesterday"));
  EXPECT_FALSE(parse_time("2999-01-01T00:00:00Z")) << "beyond the clock, it would be read as 2414";
  EXPECT_FALSE(parse_time("2024-02-29T12:34:56"));
}

TEST(Strings, SplitJoinTrim) {
  EXPECT_EQ(split("a,b,,c", ','), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(join({"a", "", "c"}, ","), "a,,c");
  EXPECT_EQ(trim("  a b\n"), "a b");
}

TEST(Strings, OnlyIpv6AddressesAreInBracketsInUrls) {
  EXPECT_EQ(url_host("::1"), "[::1]");
  EXPECT_EQ(url_host("fd00::a:1"), "[fd00::a:1]");
  EXPECT_EQ(url_host("10.96.0.1"), "10.96.0.1");
  EXPECT_EQ(url_host("agents.system.svc"), "agents.system.svc");
}

TEST(Strings, LabelValuesAreValidAndStayApart) {
  EXPECT_EQ(to_label_value("NVIDIA-H100-80GB-HBM3"), "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(to_label_value("-a b/c-"), "a-b-c");
  const std::string one = to_label_value(std::string(70, 'x') + "1");
  const std::string two = to_label_value(std::string(70, 'x') + "2");
  EXPECT_LE(one.size(), 63U);
  EXPECT_NE(one, two);
}

// RFC 4231, cases 2 and 6.
TEST(Sha256, WithAKeyIsTheStandardOne) {
  EXPECT_EQ(hmac_sha256_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_sha256_hex(std::string(131, '\xaa'),
                            "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Sha256Pair, IsWhatEachWouldBeAlone) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i);
  const auto bytes = [&](size_t from, size_t count) {
    return std::span(reinterpret_cast<const uint8_t*>(text.data()) + from, count);
  };
  for (const size_t first : {0, 1, 55, 56, 63, 64, 65, 127, 128, 5000, 12'345}) {
    for (const size_t second : {0, 3, 64, 119, 120, 192, 193, 5001}) {
      const auto pair = sha256_pair(bytes(1, first), bytes(7, second));
      EXPECT_EQ(to_hex(pair[0]), sha256_hex(text.substr(1, first))) << first << " " << second;
      EXPECT_EQ(to_hex(pair[1]), sha256_hex(text.substr(7, second))) << first << " " << second;
    }
  }
}

TEST(Sha256Pair, StreamsMayStandAnywhere) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i);
  const auto bytes = [&](size_t from, size_t count) {
    return std::span(reinterpret_cast<const uint8_t*>(text.data()) + from, count);
  };
  for (const size_t before : {0, 1, 63, 64, 128}) {
    for (const size_t count : {0, 1, 64, 65, 4096}) {
      Sha256 first;
      Sha256 second;
      first.update(bytes(0, before));
      update_pair(first, bytes(before, count), second, bytes(3, 1000));
      update_pair(second, bytes(1003, 640), first, bytes(before + count, 700));
      EXPECT_EQ(first.finish_hex(), sha256_hex(text.substr(0, before + count + 700))) << before;
      EXPECT_EQ(second.finish_hex(), sha256_hex(text.substr(3, 1640))) << count;
    }
  }
}

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock;
  const auto before = clock.monotonic();
  EXPECT_EQ(clock.monotonic(), before);
  clock.advance(seconds(5));
  EXPECT_EQ(clock.monotonic() - before, seconds(5));
}

TEST(Random, SeedsRepeat) {
  EXPECT_EQ(random_id(seeded_random(7)), random_id(seeded_random(7)));
  EXPECT_NE(random_id(system_random()), random_id(system_random()));
  EXPECT_EQ(random_id(system_random()).size(), 16U);
}

TEST(Base64, PadsAsTheRfcSaysAndReadsItBack) {
  for (const auto& [bytes, text] :
       {std::pair{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(base64_encode(bytes), text);
  }
  EXPECT_EQ(base64_decode("Zm9v\nYmE="), "fooba");
  EXPECT_EQ(base64_decode("Zm9"), std::nullopt);
  EXPECT_EQ(base64_decode("****"), std::nullopt);
}

TEST(Strings, TextIsCutBetweenCharacters) {
  EXPECT_EQ(first_bytes("abc", 3), "abc");
  EXPECT_EQ(first_bytes("abc", 2), "ab");
  EXPECT_EQ(first_bytes("a\xC3\xA4", 2), "a");
  EXPECT_EQ(first_bytes("a\xC3\xA4", 3), "a\xC3\xA4");
  EXPECT_EQ(first_bytes("\xF0\x9F\x98\x80x", 3), "");
  EXPECT_EQ(first_bytes("\xF0\x9F\x98\x80x", 4), "\xF0\x9F\x98\x80");
}

TEST(Printable, NothingOfAStrangerReachesTheTerminalButText) {
  EXPECT_EQ(printable("llama-3f2a91"), "llama-3f2a91");
  EXPECT_EQ(printable("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x9A\x80"),
            "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x9A\x80");
  EXPECT_EQ(printable("a\x1B[2Jb\r\n\t\x7F"), "a?[2Jb????");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "?31m")
      << "CSI as a C1 control";
  EXPECT_EQ(printable("\xFF\xC0\x80\xC3"), "????") << "no UTF-8";
  EXPECT_EQ(printable("\xED\xA0\x80"), "???") << "half of a surrogate pair";
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b\xE2\x81\xA6\xE2\x80\x8B\xEF\xBB\xBF"),
            "a?b???")
      << "U+202E and others that nobody sees";
}

TEST(Printable, JsonStaysTheSameJson) {
  EXPECT_EQ(printable_json("{\n  \"a\": \"\xC3\xA4\xE2\x80\xAE\x7F\xF3\xA0\x81\x81\"\n}"),
            "{\n  \"a\": \"\xC3\xA4\\u202e\\u007f\\udb40\\udc41\"\n}");
}

TEST(JsonWriter, WritesWhatOthersRead) {
  JsonWriter out;
  out.begin_object();
  out.field("text", std::string("\"\\\n\x01\xC3\xA4/"));
  out.field("truth", true);
  out.field("number", int64_t{-9'007'199'254'740'993});
  out.field("list", std::vector<int>{1, 2});
  out.field("map", std::map<std::string, std::string>{{"a", "b"}});
  out.raw_field("raw", R"({"c":[]})");
  out.key("items");
  out.begin_array();
  out.raw("1");
  out.raw("2");
  out.end_array();
  out.end_object();
  EXPECT_EQ(out.text(),
            R"({"text":"\"\\\n\u0001)"
            "\xC3\xA4"
            R"(/","truth":true,"number":-9007199254740993,"list":[1,2],"map":{"a":"b"},)"
            R"("raw":{"c":[]},"items":[1,2]})");
}

}  // namespace
}  // namespace compilecache
