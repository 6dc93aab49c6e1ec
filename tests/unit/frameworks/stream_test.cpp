#include "frameworks/stream.hpp"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <random>
#include <string>

namespace compilecache::frameworks {
namespace {

bool whole(std::string_view bytes) {
  return stream_whole(
      [&](uint64_t offset, std::span<uint8_t> out) {
        if (offset > bytes.size() || out.size() > bytes.size() - offset) return false;
        std::memcpy(out.data(), bytes.data() + offset, out.size());
        return true;
      },
      bytes.size());
}

// Several blocks, some of which do not compress.
std::string content() {
  std::mt19937 random(1);
  std::string text(300'000, 'x');
  for (size_t i = 0; i < text.size() / 2; ++i) text[i] = static_cast<char>(random());
  return text;
}

std::string zstd(const std::string& text, bool checksum = false, bool size = true) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, size ? 1 : 0);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

std::string zlib(const std::string& text) {
  uLongf length = ::compressBound(text.size());
  std::string out(length, '\0');
  ::compress(reinterpret_cast<Bytef*>(out.data()), &length,
             reinterpret_cast<const Bytef*>(text.data()), text.size());
  out.resize(length);
  return out;
}

TEST(Stream, WhatEndsIsWhole) {
  for (const std::string& text : {std::string(), std::string("short"), content()}) {
    EXPECT_TRUE(whole(zstd(text))) << text.size();
    EXPECT_TRUE(whole(zstd(text, true))) << text.size();
    EXPECT_TRUE(whole(zstd(text, false, false))) << text.size();
    EXPECT_TRUE(whole(zlib(text))) << text.size();
  }
}

TEST(Stream, WhatIsCutOffAnywhereIsNot) {
  for (const std::string& stream :
       {zstd(content()), zstd(content(), true), zstd(content(), false, false), zlib(content())}) {
    for (const double part : {0.0, 0.00001, 0.0001, 0.1, 0.5, 0.9, 0.99}) {
      const auto length = static_cast<size_t>(part * static_cast<double>(stream.size()));
      EXPECT_FALSE(whole(stream.substr(0, length))) << length << " of " << stream.size();
    }
    for (size_t less = 1; less < 6; ++less) {
      EXPECT_FALSE(whole(stream.substr(0, stream.size() - less))) << less;
    }
  }
}

// A file system that was not synced leaves the length without the bytes.
TEST(Stream, ZerosInPlaceOfItsEndAreSeenInZlib) {
  std::string stream = zlib(content());
  std::fill(stream.end() - 1000, stream.end(), '\0');
  EXPECT_FALSE(whole(stream));
}

TEST(Stream, AnotherFormatIsTakenForWhole) {
  EXPECT_TRUE(whole("{\"a\": 1}"));
  EXPECT_FALSE(whole(""));
}

}  // namespace
}  // namespace compilecache::frameworks
