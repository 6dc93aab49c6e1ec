#include "malicious_fixture.hpp"

#include <zstd.h>

#include <cstdio>

#include "archive/blob_store.hpp"
#include "archive/encode.hpp"
#include "archive/layer/frame_compressor.hpp"
#include "archive/layer/tar_writer.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive::test {

namespace fs = std::filesystem;

namespace {

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

FileEntry listed(const std::string& path, const std::string& content) {
  return {path, content.size(), false, *parse_content_hash(sha256_hex(content)), 0, ""};
}

std::string tar_file(const std::string& path, const std::string& content) {
  return tar_header({path, TarType::kFile, content.size(), false, ""}) + content +
         std::string(tar_padding(content.size()), '\0');
}

std::string tar_link(const std::string& path, const std::string& target) {
  return tar_header({path, TarType::kHardLink, 0, false, target});
}

std::string tar_end() { return std::string(kTarEndBytes, '\0'); }

std::string pax(const std::string& records) {
  const std::string header = changed_header(
      tar_header({"PaxHeader", TarType::kFile, records.size(), false, ""}), 156, "x");
  return header + records + std::string(tar_padding(records.size()), '\0');
}

std::string changed_header(std::string tar, size_t at, const std::string& bytes) {
  tar.replace(at, bytes.size(), bytes);
  tar.replace(148, 8, "        ");
  unsigned sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += static_cast<unsigned char>(tar[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  tar.replace(148, 7, std::string(text, 7));
  return tar;
}

std::string zstd(const std::string& plain, int level) {
  std::string out(ZSTD_compressBound(plain.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), level));
  return out;
}

std::string seek_table(uint32_t compressed, uint32_t plain) {
  SeekTable table;
  table.frames = {{compressed, plain}};
  return encode_seek_table(table);
}

std::string MaliciousTest::put(const std::string& content) {
  auto blob = store_.create(kLayerMediaType);
  EXPECT_TRUE(blob);
  EXPECT_TRUE((*blob)->write(bytes_of(content)));
  const auto finished = (*blob)->commit({});
  EXPECT_TRUE(finished);
  sizes_[finished->digest] = finished->size;
  return finished->digest;
}

std::string MaliciousTest::put_layer(const std::string& tar, size_t frame_bytes) {
  auto blob = store_.create(kLayerMediaType);
  EXPECT_TRUE(blob);
  FrameCompressor compressor(**blob, {3, frame_bytes, 1});
  EXPECT_TRUE(compressor.append(bytes_of(tar)));
  EXPECT_TRUE(compressor.finish());
  const auto finished = (*blob)->commit({});
  EXPECT_TRUE(finished);
  sizes_[finished->digest] = finished->size;
  return finished->digest;
}

std::string MaliciousTest::put_archive(const std::string& layer,
                                       const std::vector<FileEntry>& files) {
  Config config;
  config.files = files;
  config.layers = {{0, 0}};
  return put_manifest(put(*encode_config(config)), {layer});
}

std::string MaliciousTest::put_manifest(const std::string& config,
                                        const std::vector<std::string>& layers) {
  Manifest manifest;
  manifest.config = {kConfigMediaType, config, sizes_.at(config)};
  for (const std::string& layer : layers)
    manifest.layers.push_back({kLayerMediaType, layer, sizes_.at(layer)});
  return put(encode_manifest(manifest));
}

std::string MaliciousTest::archive_with_config(const std::string& json) {
  return put_manifest(put(zstd(json)), {put_layer(tar_file("x", "1") + tar_end())});
}

void MaliciousTest::pack_blobs(const std::string& file) {
  std::string blobs;
  for (const auto& [digest, size] : sizes_) blobs += " blobs/sha256/" + digest.substr(7);
  run("tar -C " + store_.path() +
      " --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --zstd -cf " + file + blobs);
  sizes_.clear();
}

void MaliciousTest::unpack_blobs(const std::string& file) {
  run("tar -C " + store_.path() + " --zstd -xf " + file);
}

void MaliciousTest::expect_refused(const std::string& manifest, const std::string& message,
                                   const Limits& limits) {
  const std::string cage = temp_.path("cage");
  fs::create_directories(cage + "/into");
  ExtractOptions options;
  options.roots = {{"", cage + "/into"}};
  options.limits = limits;
  VerifyOptions checking;
  checking.limits = limits;
  const auto loaded = extract(store_, manifest, options);
  ASSERT_FALSE(loaded) << "accepted";
  EXPECT_TRUE(loaded.error().code == ErrorCode::kCorrupt ||
              loaded.error().code == ErrorCode::kTooLarge ||
              loaded.error().code == ErrorCode::kInvalid)
      << to_string(loaded.error().code) << " " << loaded.error().message;
  EXPECT_NE(loaded.error().message.find(message), std::string::npos) << loaded.error().message;
  for (const char c : loaded.error().message)
    EXPECT_GE(static_cast<unsigned char>(c), 0x20) << "a control character in a log";
  EXPECT_FALSE(verify(store_, manifest, checking)) << "loads fail, checks do not";
  EXPECT_EQ(names_below(cage), std::vector<std::string>{"into"});
  EXPECT_FALSE(fs::exists("/tmp/archive-escaped"));
}

}  // namespace compilecache::archive::test
