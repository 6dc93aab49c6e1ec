#include <functional>

#include "archive/blob.hpp"
#include "archive/encode.hpp"
#include "archive/frame_compressor.hpp"
#include "archive/tar_writer.hpp"
#include "archive_fixture.hpp"
#include "base/sha256.hpp"

// Archives with right digests that no writer of ours makes. None writes outside its destination.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

FileEntry listed(const std::string& path, const std::string& content) {
  return {path, content.size(), false, *parse_content_hash(sha256_hex(content)), 0, ""};
}

std::string tar_file(const std::string& path, const std::string& content) {
  return tar_header({path, TarType::kFile, content.size(), false, ""}) + content +
         std::string(tar_padding(content.size()), '\0');
}

const std::string kEnd(kTarEndBytes, '\0');

// Sets bytes of a header and mends its checksum.
std::string changed_header(std::string header, size_t at, const std::string& bytes) {
  header.replace(at, bytes.size(), bytes);
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += static_cast<unsigned char>(header[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 7, std::string(text, 7));
  return header;
}

class Malicious : public ArchiveTest {
 protected:
  std::string put(const std::string& content) {
    auto blob = BlobWriter::create(store_);
    EXPECT_TRUE(blob);
    EXPECT_TRUE(blob->write(bytes_of(content)));
    const auto finished = blob->finish();
    EXPECT_TRUE(finished);
    sizes_[finished->digest] = finished->size;
    return finished->digest;
  }
  std::string put_layer(const std::string& tar, size_t frame_bytes = 64 << 10) {
    auto blob = BlobWriter::create(store_);
    EXPECT_TRUE(blob);
    FrameCompressor compressor(*blob, {3, frame_bytes, 1});
    EXPECT_TRUE(compressor.append(bytes_of(tar)));
    EXPECT_TRUE(compressor.finish());
    const auto finished = blob->finish();
    EXPECT_TRUE(finished);
    sizes_[finished->digest] = finished->size;
    return finished->digest;
  }
  std::string put_archive(const std::string& layer, const std::vector<FileEntry>& files,
                          uint64_t plain = 0) {
    Config config;
    config.files = files;
    config.layers = {{plain, plain}};
    Manifest manifest;
    const std::string encoded = *encode_config(config);
    manifest.config = {kConfigMediaType, put(encoded), encoded.size()};
    manifest.layers = {{kLayerMediaType, layer, sizes_[layer]}};
    return put(encode_manifest(manifest));
  }
  // A whole archive of one tar. The whole of it is mapped, and must fail and leave nothing
  // anywhere.
  void refuse(const std::string& tar, const std::vector<FileEntry>& files,
              const std::string& message, const Limits& limits = {}) {
    refuse_manifest(put_archive(put_layer(tar), files), message, limits);
  }
  void refuse_manifest(const std::string& manifest, const std::string& message,
                       const Limits& limits = {}) {
    const std::string cage = temp_.path("cage");
    fs::create_directories(cage + "/into");
    ExtractOptions options;
    options.roots = {{"", cage + "/into"}};
    options.limits = limits;
    const auto loaded = extract(store_, manifest, options);
    ASSERT_FALSE(loaded) << "accepted: " << message;
    EXPECT_TRUE(loaded.error().code == ErrorCode::kCorrupt ||
                loaded.error().code == ErrorCode::kTooLarge)
        << to_string(loaded.error().code) << " " << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(message), std::string::npos) << loaded.error().message;
    EXPECT_EQ(names_below(cage), std::vector<std::string>{"into"});
    EXPECT_FALSE(fs::exists("/tmp/archive-escaped"));
  }

  std::map<std::string, uint64_t> sizes_;
};

TEST_F(Malicious, ThisFixtureMakesGoodArchivesToo) {
  const std::string manifest =
      put_archive(put_layer(tar_file("torch/x", "content") + kEnd), {listed("torch/x", "content")});
  EXPECT_EQ(load(manifest), (Tree{{"x", {"content", false}}}));
}

TEST_F(Malicious, PathsThatLeadOut) {
  const std::string good = tar_file("x", "1");
  for (const std::string& path :
       {std::string("/tmp/archive-escaped"), std::string("../escaped"), std::string("a/../../b"),
        std::string("a//b"), std::string("./a"), std::string("a/."), std::string("a\nb"),
        std::string("\xFF\xFE"), std::string("a\xC0\xAF") + "b"}) {
    // In the tar, in the config, and as the place where the content is said to be.
    refuse(tar_file(path, "1") + good + kEnd, {listed("x", "1")}, "cannot be in an archive");
    if (path.front() == '\xFF' || path[1] == '\xC0') continue;  // JSON cannot even say it
    refuse(good + kEnd, {listed(path, "1")}, "cannot be in an archive");
    FileEntry from = listed("y", "1");
    from.from = path;
    refuse(good + kEnd, {from}, "cannot be in an archive");
  }
  refuse(good + kEnd, {listed("", "1")}, "it is empty");
  std::string deep = "d";
  for (int i = 0; i < 40; ++i) deep += "/d";
  refuse(tar_file(deep, "1") + kEnd, {listed(deep, "1")}, "deeper than 32");
  const std::string wide(300, 'w');
  refuse(tar_file(wide, "1") + kEnd, {listed(wide, "1")}, "longer than 255");
}

TEST_F(Malicious, EntriesThatAreNeitherFilesNorDirectories) {
  const std::string good = tar_file("x", "1");
  const std::string header = tar_header({"evil", TarType::kFile, 0, false, ""});
  for (const char* type : {"2", "3", "4", "6", "7", "L", "K", "S", "g", "V", "M", "A"}) {
    std::string entry = changed_header(header, 156, type);
    entry = changed_header(entry, 157, "/etc/passwd");
    refuse(entry + good + kEnd, {listed("x", "1")}, "no file, directory or hard link");
  }
}

TEST_F(Malicious, HardLinksToElsewhere) {
  const std::string good = tar_file("x", "1");
  for (const char* target : {"/etc/passwd", "../x"}) {
    refuse(good + tar_header({"l", TarType::kHardLink, 0, false, target}) + kEnd,
           {listed("x", "1")}, "cannot be in an archive");
  }
  for (const char* target : {"later", "l"}) {
    refuse(good + tar_header({"l", TarType::kHardLink, 0, false, target}) + tar_file("later", "2") +
               kEnd,
           {listed("x", "1")}, "not an earlier entry");
  }
  const std::string with_size =
      changed_header(tar_header({"l", TarType::kHardLink, 0, false, "x"}), 124, "00000000001");
  refuse(good + with_size + kEnd, {listed("x", "1")}, "link with content");
  const std::string file_with_target =
      changed_header(tar_header({"f", TarType::kFile, 0, false, ""}), 157, "x");
  refuse(good + file_with_target + kEnd, {listed("x", "1")}, "no link");
}

TEST_F(Malicious, TheSamePathTwice) {
  refuse(tar_file("x", "1") + tar_file("x", "1") + kEnd, {listed("x", "1")}, "two entries");
  refuse(tar_file("x", "1") + kEnd, {listed("x", "1"), listed("x", "1")}, "sorted");
  refuse(tar_file("a", "1") + tar_file("x", "1") + kEnd, {listed("x", "1"), listed("a", "1")},
         "sorted");
}

TEST_F(Malicious, AFileThatIsADirectoryToo) {
  const std::string manifest =
      put_archive(put_layer(tar_file("a", "1") + tar_file("a/b", "1") + kEnd),
                  {listed("a", "1"), listed("a/b", "1")});
  ExtractOptions options;
  options.roots = {{"", temp_.path("into")}};
  EXPECT_FALSE(extract(store_, manifest, options));
  EXPECT_FALSE(fs::exists(temp_.path("into")));
}

TEST_F(Malicious, LayersThatDisagreeWithTheConfig) {
  refuse(tar_file("x", "12") + kEnd, {listed("x", "1")}, "disagree");
  refuse(tar_file("x", "2") + kEnd, {listed("x", "1")}, "not what the config lists");
  refuse(tar_file("y", "1") + kEnd, {listed("x", "1")}, "lacks x");
  FileEntry other = listed("z", "2");
  other.from = "x";
  refuse(tar_file("x", "1") + kEnd, {listed("x", "1"), other}, "disagree");
  FileEntry far = listed("x", "1");
  far.layer = 3;
  refuse(tar_file("x", "1") + kEnd, {far}, "a layer that is not there");
}

TEST_F(Malicious, TarsThatTwoReadersWouldReadDifferently) {
  const std::string good = tar_file("x", "1");
  const auto pax = [](const std::string& records) {
    const std::string header = changed_header(
        tar_header({"PaxHeader", TarType::kFile, records.size(), false, ""}), 156, "x");
    return header + records + std::string(tar_padding(records.size()), '\0');
  };
  refuse(pax("9 size=1\n") + tar_file("y", "12345") + good + kEnd, {listed("x", "1")}, "disagree");
  refuse(pax("11 uid=1234\n") + good + kEnd, {listed("x", "1")}, "PAX record");
  refuse(pax("12 path=abc\n12 path=abd\n") + good + kEnd, {listed("x", "1")}, "repeated");
  refuse(pax("99 path=abc\n") + good + kEnd, {listed("x", "1")}, "malformed PAX");
  refuse(pax("12 path=abc\n") + pax("12 path=abd\n") + good + kEnd, {listed("x", "1")},
         "two PAX headers");
  refuse(good + pax("12 path=abc\n") + kEnd, {listed("x", "1")}, "without its entry");
  refuse(good + std::string(kTarBlock, '\0') + tar_file("hidden", "2"), {listed("x", "1")},
         "padding");
  std::string padded = good;
  padded[kTarBlock + 5] = 'p';
  refuse(padded + kEnd, {listed("x", "1")}, "padding");
  std::string gnu = changed_header(good, 257, std::string("ustar  \0", 8));
  refuse(gnu + kEnd, {listed("x", "1")}, "not ustar");
  std::string binary_size =
      changed_header(good, 124, std::string("\x80\0\0\0\0\0\0\0\0\0\0\1", 12));
  refuse(binary_size + kEnd, {listed("x", "1")}, "malformed");
  std::string wrong = good;
  wrong[0] = 'y';
  refuse(wrong + kEnd, {listed("x", "1")}, "checksum");
}

TEST_F(Malicious, TarsThatEndTooEarly) {
  const std::string good = tar_file("x", std::string(2000, 'x'));
  const FileEntry entry = listed("x", std::string(2000, 'x'));
  refuse(good, {entry}, "ends in the middle");
  refuse(good + std::string(kTarBlock, '\0'), {entry}, "ends in the middle");
  refuse(good.substr(0, 1000), {entry}, "ends in the middle");
  refuse(good.substr(0, 100), {entry}, "ends in the middle");
}

TEST_F(Malicious, BombsAndFloods) {
  Limits limits;
  limits.max_entries = 5;
  std::string many;
  for (int i = 0; i < 30; ++i) many += tar_file("f" + std::to_string(i), "");
  refuse(many + kEnd, {listed("f1", "")}, "entries", limits);
  std::vector<FileEntry> files;
  for (int i = 0; i < 9; ++i) files.push_back(listed("f" + std::to_string(i), ""));
  refuse(many + kEnd, files, "too many files", limits);

  const std::string zeros(80 << 20, '\0');
  limits = {};
  limits.max_ratio = 100;
  const std::string bomb = put_layer(tar_file("x", zeros) + kEnd, 16 << 20);
  refuse_manifest(put_archive(bomb, {listed("x", zeros)}), "more than is accepted", limits);
  limits = {};
  limits.max_plain_bytes = 1 << 20;
  refuse_manifest(put_archive(bomb, {listed("x", zeros)}), "too large", limits);
  refuse_manifest(put_archive(bomb, {}), "more than is accepted", limits);
  limits = {};
  limits.max_frame_bytes = 1 << 20;
  refuse_manifest(put_archive(bomb, {listed("x", zeros)}), "a frame of", limits);
  FileEntry huge = listed("x", "1");
  huge.size = UINT64_MAX;
  refuse(tar_file("x", "1") + kEnd, {huge}, "too large");
}

TEST_F(Malicious, FramesThatLie) {
  const std::string tar = tar_file("x", "1") + kEnd;
  write_file(temp_.path("tar"), tar);
  const std::vector<FileEntry> files = {listed("x", "1")};
  const auto with_table = [&](const std::string& frames, uint32_t compressed, uint32_t plain) {
    SeekTable table;
    table.frames = {{compressed, plain}};
    refuse_manifest(put_archive(put(frames + encode_seek_table(table)), files), "");
  };
  const std::string frame = run("zstd -q -c < " + temp_.path("tar"));
  const auto size = static_cast<uint32_t>(frame.size());
  const auto plain = static_cast<uint32_t>(tar.size());
  with_table(frame, size, plain - 1);
  with_table(frame, size, plain + 1);
  with_table(frame, size, 0);
  with_table(frame + frame, 2 * size, plain);
  with_table(frame, size - 1, plain);
  with_table(frame.substr(0, size - 3), size - 3, plain);
  with_table("not zstd at all", 15, plain);
  refuse_manifest(put_archive(put(frame), files), "seek table");
  refuse_manifest(put_archive(put("tiny"), files), "too short");
  const std::string window = run("head -c 40000000 /dev/zero | zstd -q --long=27 -c");
  SeekTable table;
  table.frames = {{static_cast<uint32_t>(window.size()), 1 << 20}};
  refuse_manifest(put_archive(put(window + encode_seek_table(table)), files), "window");
}

TEST_F(Malicious, ManifestsAndConfigsOfNonsense) {
  for (const std::string& text :
       {std::string("{}"), std::string("[]"), std::string("null"), std::string("\"x\""),
        std::string(), std::string(100'000, '['),
        std::string(
            R"({"schemaVersion":2,"artifactType":"application/vnd.compilecache.archive.v1"})"),
        std::string(
            R"({"schemaVersion":2,"artifactType":"application/vnd.oci.image.config.v1+json"})")}) {
    const auto manifest = read_manifest(store_, put(text));
    EXPECT_FALSE(manifest) << text.substr(0, 80);
  }
  for (const std::string& text :
       {std::string("{}"), std::string("[]"), std::string("7"), std::string(100'000, '['),
        std::string(R"({"formatVersion":1,"layers":[],"files":[{"path":"x"}]})"),
        std::string(R"({"formatVersion":1,"layers":[],"files":[1,2]})"),
        std::string(R"({"formatVersion":1,"layers":[{},{},{},{},{}],"files":[]})"),
        std::string(R"({"formatVersion":1,"files":[{"path":"x","size":-1}]})"),
        std::string(R"({"formatVersion":1,"files":[{"path":"x","sha256":"zz"}]})"),
        std::string(R"({"formatVersion":1,"files":[)")}) {
    write_file(temp_.path("config"), text);
    const auto config = decode_config(run("zstd -q -c < " + temp_.path("config")), {});
    EXPECT_FALSE(config) << text.substr(0, 80);
  }
  EXPECT_FALSE(decode_config("not zstd", {}));
  const auto skipped = R"({"new":{"files":[{"path":"../x"}],"size":3},"formatVersion":1,)"
                       R"("layers":[],"files":[],"also":[1,[2],{"layer":9}]})";
  write_file(temp_.path("config"), skipped);
  EXPECT_TRUE(decode_config(run("zstd -q -c < " + temp_.path("config")), {}))
      << "members that a later release adds within this version";
}

}  // namespace
}  // namespace compilecache::archive::test
