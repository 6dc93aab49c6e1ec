#include "http/chunks.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace compilecache::http {
namespace {

// The body, with its result: "+" done, "!" failed, "" in the middle; then what is left.
std::string read_chunks(const std::string& input, size_t piece, size_t room) {
  ChunkReader chunks;
  std::string body;
  std::vector<uint8_t> buffer(room);
  size_t at = 0;
  while (at < input.size() && !chunks.done() && !chunks.failed()) {
    const auto step = chunks.read(std::string_view(input).substr(at, piece), buffer);
    body.append(buffer.begin(), buffer.begin() + static_cast<long>(step.produced));
    at += step.consumed;
  }
  return body + (chunks.done() ? "+" : chunks.failed() ? "!" : "") + input.substr(at);
}

TEST(Chunks, AreReadInPiecesOfAnySize) {
  const std::string input = "5\r\nhello\r\n00A ; a=\"b\"\r\n, chunks!!\r\n0\r\nX: y\r\n\r\nHTTP";
  for (size_t piece = 1; piece <= input.size(); ++piece) {
    for (const size_t room : {1, 4, 100}) {
      EXPECT_EQ(read_chunks(input, piece, room), "hello, chunks!!+HTTP") << piece << " " << room;
    }
  }
}

TEST(Chunks, WhatIsCutIsNotDone) {
  const std::string input = "5\r\nhello\r\n0\r\nX: y\r\n\r\n";
  for (size_t size = 0; size < input.size(); ++size) {
    EXPECT_EQ(read_chunks(input.substr(0, size), 100, 100).find_first_of("+!"), std::string::npos)
        << size;
  }
}

TEST(Chunks, WhatIsNotInChunksIsRefused) {
  const std::string long_line(20000, 'x');
  const std::string cases[] = {
      "hello",
      "\r\n",
      "-1\r\n",
      "0x5\r\nhello",
      "5\nhello",
      "5\r\rhello",
      "5\r\nhello5\r\n",
      "5\r\nhello\r5\r\n",
      "5;a\nb\r\nhello",
      "FFFFFFFFFFFFFFFFF\r\n",
      "5;" + long_line + "\r\nhello",
      std::string(20000, '0') + "5\r\nhello",
      "0\r\n" + long_line + "\r\n\r\n",
      "0\r\nX: y\n\r\n",
      "0\r\n\rX",
  };
  for (const auto& input : cases) {
    EXPECT_NE(read_chunks(input, 4096, 4096).find('!'), std::string::npos) << input.substr(0, 40);
  }
}

}  // namespace
}  // namespace compilecache::http
