#include "archive/format.hpp"

#include <gtest/gtest.h>
#include <zstd.h>

#include "archive/layer/seek_table.hpp"
#include "archive/layer/stored_frame.hpp"
#include "archive/layer/tar_parser.hpp"
#include "archive/layer/tar_writer.hpp"

// Tests of the small parts of the format.

namespace compilecache::archive::test {
namespace {

TEST(Format, Digests) {
  const std::string hex(64, 'a');
  EXPECT_TRUE(is_digest("sha256:" + hex));
  for (const std::string& text : {std::string(), hex, "sha256:" + hex + "a", "SHA256:" + hex,
                                  "sha256:" + std::string(64, 'g'), "sha256:" + hex + "\n"})
    EXPECT_FALSE(is_digest(text)) << text;
  EXPECT_EQ(to_hex(*parse_content_hash("00ff" + std::string(60, '7'))),
            "00ff" + std::string(60, '7'));
}

TEST(Format, Paths) {
  for (const char* path :
       {"a", "a/b", ".hidden", "..a", "a..", "a b", "\xC3\xA4", "\xF0\x9F\x98\x80"})
    EXPECT_TRUE(check_archive_path(path)) << path;
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("/a"), std::string("a/"), std::string("a//b"),
        std::string("."), std::string(".."), std::string("a/.."), std::string("a\0b", 3),
        std::string("a\x7F"), std::string("\xC3"), std::string("\xC0\x80"),
        std::string("\xED\xA0\x80"), std::string("\xF5\x80\x80\x80"), std::string(5000, 'a')})
    EXPECT_FALSE(check_archive_path(path)) << path;
}

TEST(SeekTableTest, ReadsWhatItWrites) {
  const SeekTable table{{{100, 4096}, {7, 1}}};
  const std::string text = encode_seek_table(table);
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  EXPECT_EQ(*seek_table_bytes(std::span(bytes).last(kSeekFooterBytes)), bytes.size());
  const auto parsed = parse_seek_table(bytes, 107 + bytes.size(), {});
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->frames.size(), 2U);
  EXPECT_EQ(parsed->frames[0].plain, 4096U);
  EXPECT_EQ(parsed->plain_bytes(), 4097U);
  EXPECT_FALSE(parse_seek_table(bytes, 106 + bytes.size(), {}));
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(parse_seek_table(std::span(bytes).last(cut), 107 + cut, {})) << cut;
}

TEST(StoredFrame, IsReadInPlaceAndByZstd) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{128} << 10, (size_t{300} << 10) + 5}) {
    std::vector<uint8_t> plain(size);
    for (size_t i = 0; i < size; ++i) plain[i] = static_cast<uint8_t>(i * i >> 3);
    std::vector<uint8_t> frame(size + 64);
    frame.resize(store_frame(plain, frame.data()));
    const auto pieces = stored_bytes(frame, size);
    if (size == 0) {
      EXPECT_FALSE(pieces) << "no blocks; zstd may say what it is";
      continue;
    }
    ASSERT_TRUE(pieces) << size;
    std::vector<uint8_t> read;
    for (const auto piece : *pieces) read.insert(read.end(), piece.begin(), piece.end());
    EXPECT_EQ(read, plain);
    std::vector<uint8_t> decoded(size);
    EXPECT_EQ(ZSTD_decompress(decoded.data(), size, frame.data(), frame.size()), size);
    EXPECT_EQ(decoded, plain);

    EXPECT_FALSE(stored_bytes(frame, size + 1));
    EXPECT_FALSE(stored_bytes(frame, size - 1));
    EXPECT_FALSE(stored_bytes(std::span(frame).first(frame.size() - 1), size));
    for (size_t cut = 0; cut < 13; ++cut)
      EXPECT_FALSE(stored_bytes(std::span(frame).first(cut), size)) << cut;
    for (size_t at = 0; at < 12; ++at) {
      auto other = frame;
      other[at] ^= 0x12;
      EXPECT_FALSE(stored_bytes(other, size)) << at;
    }
  }
}

struct Collector : TarSink {
  Status begin_file(const TarEntry& entry) override {
    entries.push_back(entry);
    return {};
  }
  Status data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>&) override {
    content += bytes.size();
    return {};
  }
  Status end_file() override {
    ++ended;
    return {};
  }
  std::vector<TarEntry> entries;
  uint64_t content = 0;
  int ended = 0;
};

TEST(TarTest, ParsesBytesInPiecesOfAnySize) {
  std::string tar;
  const std::string long_path = std::string(200, 'p') + "/" + std::string(200, 'q');
  for (const std::string& path : {std::string("a"), long_path})
    tar +=
        tar_header({path, TarType::kFile, 3, true, ""}) + "123" + std::string(tar_padding(3), '\0');
  tar += tar_header({"l", TarType::kHardLink, 0, true, long_path});
  tar += std::string(kTarEndBytes, '\0');
  const std::vector<uint8_t> bytes(tar.begin(), tar.end());
  for (const size_t step : {size_t{1}, size_t{511}, size_t{512}, size_t{700}, bytes.size()}) {
    Collector sink;
    TarParser parser(sink, 100);
    for (size_t at = 0; at < bytes.size(); at += step) {
      const auto fed =
          parser.feed(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)), nullptr);
      ASSERT_TRUE(fed) << fed.error().message;
    }
    EXPECT_TRUE(parser.finish());
    ASSERT_EQ(sink.entries.size(), 2U);
    EXPECT_EQ(sink.entries[1].path, long_path);
    EXPECT_TRUE(sink.entries[1].executable);
    EXPECT_EQ(sink.content, 6U);
    EXPECT_EQ(sink.ended, 2);
  }
}

TEST(TarTest, AsManyEntriesAsThereMayBeAreTaken) {
  std::string tar;
  for (const char* path : {"a", "b"}) tar += tar_header({path, TarType::kFile, 0, false, ""});
  tar += std::string(kTarEndBytes, '\0');
  const std::vector<uint8_t> bytes(tar.begin(), tar.end());
  for (const uint64_t most : {2, 1}) {
    Collector sink;
    TarParser parser(sink, most);
    EXPECT_EQ(parser.feed(bytes, nullptr).has_value(), most == 2);
  }
}

TEST(TarTest, FilesLargerThanUstarTakes) {
  const uint64_t size = 9ULL << 30;
  const std::string header = tar_header({"big", TarType::kFile, size, false, ""});
  const std::vector<uint8_t> bytes(header.begin(), header.end());
  Collector sink;
  TarParser parser(sink, 100);
  ASSERT_TRUE(parser.feed(bytes, nullptr));
  ASSERT_EQ(sink.entries.size(), 1U);
  EXPECT_EQ(sink.entries[0].size, size);
  EXPECT_FALSE(parser.finish());
}

}  // namespace
}  // namespace compilecache::archive::test
