#include <cstdlib>
#include <fstream>
#include <functional>

#include "archive/encode.hpp"
#include "archive/layer/tar_writer.hpp"
#include "malicious_fixture.hpp"
#include "tests/support/paths.hpp"

// Archives that have correct digests but that our writer never makes, and the message with which
// each is refused. None writes anything, neither in its destination nor outside.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

const std::string kGood = tar_file("x", "1");
const FileEntry kX = listed("x", "1");
const std::string kHash(64, 'a');

struct Kind {
  const char* name;
  const char* message;
  std::function<std::string(MaliciousTest&)> make;
  Limits limits = {};
  bool has_limits = false;  // lower than usual
};

// A tar with these bytes before the good file.
Kind tar(const char* name, const char* message, const std::string& before) {
  return {name, message, [before](MaliciousTest& test) {
            return test.archive_of(before + kGood + tar_end(), {kX});
          }};
}

// Exactly this tar.
Kind whole_tar(const char* name, const char* message, const std::string& bytes) {
  return {name, message, [bytes](MaliciousTest& test) { return test.archive_of(bytes, {kX}); }};
}

// A good layer whose config lists other files.
Kind list(const char* name, const char* message, const std::vector<FileEntry>& files) {
  return {name, message,
          [files](MaliciousTest& test) { return test.archive_of(kGood + tar_end(), files); }};
}

Kind config(const char* name, const char* message, const std::string& json) {
  return {name, message, [json](MaliciousTest& test) { return test.archive_with_config(json); }};
}

Kind manifest(const char* name, const char* message, const std::string& json) {
  return {name, message, [json](MaliciousTest& test) { return test.put(json); }};
}

// A layer blob with these bytes.
Kind layer(const char* name, const char* message, const std::string& bytes) {
  return {name, message,
          [bytes](MaliciousTest& test) { return test.put_archive(test.put(bytes), {kX}); }};
}

Kind limited(Kind kind, const std::function<void(Limits&)>& set) {
  set(kind.limits);
  kind.has_limits = true;
  return kind;
}

std::string header_of_type(char type) {
  return changed_header(
      changed_header(tar_header({"evil", TarType::kFile, 0, false, ""}), 156, {type}), 157,
      "/etc/passwd");
}

FileEntry with(FileEntry entry, const std::function<void(FileEntry&)>& change) {
  change(entry);
  return entry;
}

std::string deep_path(int levels) {
  std::string path = "d";
  for (int i = 1; i < levels; ++i) path += "/d";
  return path;
}

std::vector<Kind> path_kinds() {
  const auto in_config = [](const char* name, const char* message, const std::string& path) {
    return config(name, message,
                  R"({"formatVersion":1,"layers":[{}],"files":[{"path":")" + path +
                      R"(","size":1,"sha256":")" + kHash + R"(","layer":0}]})");
  };
  return {
      tar("absolute_path_in_tar", "it is absolute", tar_file("/tmp/archive-escaped", "1")),
      tar("dot_dot_in_tar", "component \".\" or \"..\"", tar_file("../escaped", "1")),
      tar("dot_dot_inside_in_tar", "component \".\" or \"..\"", tar_file("a/../../b", "1")),
      tar("dot_in_tar", "component \".\" or \"..\"", tar_file("./a", "1")),
      tar("empty_component_in_tar", "empty component", tar_file("a//b", "1")),
      tar("control_character_in_tar", "control character", tar_file("a\nb", "1")),
      tar("invalid_utf8_in_tar", "not valid UTF-8", tar_file("\xFF\xFE", "1")),
      tar("overlong_slash_in_tar", "not valid UTF-8",
          tar_file("a\xC0\xAF"
                   "b",
                   "1")),
      tar("surrogate_in_tar", "not valid UTF-8", tar_file("\xED\xA0\x80", "1")),
      tar("nul_in_tar_name", "malformed",
          changed_header(tar_file("name", "1"), 0, std::string("a\0b", 3))),
      tar("nul_in_pax_path", "control character",
          pax(std::string("12 path=a\0b\n", 12)) + tar_file("y", "1")),
      tar("absolute_pax_path", "it is absolute",
          pax("29 path=/tmp/archive-escaped\n") + tar_file("y", "1")),
      tar("too_deep_in_tar", "deeper than 32", tar_file(deep_path(40), "1")),
      tar("too_long_component", "longer than 255", tar_file(std::string(300, 'w'), "1")),
      tar("absolute_directory", "it is absolute",
          tar_header({"/tmp/archive-escaped", TarType::kDirectory, 0, true, ""})),
      in_config("absolute_path_in_config", "it is absolute", "/tmp/archive-escaped"),
      in_config("dot_dot_in_config", "component \".\" or \"..\"", "a/../../escaped"),
      in_config("empty_path_in_config", "it is empty", ""),
      in_config("nul_in_config", "control character", R"(a\u0000b)"),
      in_config("invalid_utf8_in_config", "not JSON", "\xFF\xFE"),
      in_config("lone_surrogate_in_config", "not JSON", R"(\ud800)"),
      in_config("too_deep_in_config", "deeper than 32", deep_path(40)),
      list("absolute_from", "it is absolute",
           {with(kX, [](FileEntry& file) { file.from = "/etc/passwd"; })}),
      list("dot_dot_from", "component \".\" or \"..\"",
           {with(kX, [](FileEntry& file) { file.from = "../x"; })}),
  };
}

std::vector<Kind> entry_kinds() {
  std::vector<Kind> kinds = {
      tar("symbolic_link", "no file, directory or hard link", header_of_type('2')),
      tar("character_device", "no file, directory or hard link", header_of_type('3')),
      tar("block_device", "no file, directory or hard link", header_of_type('4')),
      tar("fifo", "no file, directory or hard link", header_of_type('6')),
      tar("contiguous_file", "no file, directory or hard link", header_of_type('7')),
      tar("gnu_long_name", "no file, directory or hard link", header_of_type('L')),
      tar("gnu_sparse", "no file, directory or hard link", header_of_type('S')),
      tar("global_pax_header", "no file, directory or hard link", header_of_type('g')),
      tar("old_type_of_files", "no file, directory or hard link",
          changed_header(tar_file("y", "1"), 156, std::string(1, '\0'))),
      whole_tar("hard_link_to_absolute_path", "it is absolute",
                kGood + tar_link("l", "/etc/passwd") + tar_end()),
      whole_tar("hard_link_out", "component \".\" or \"..\"",
                kGood + tar_link("l", "../x") + tar_end()),
      whole_tar("hard_link_to_later_entry", "not an earlier entry",
                kGood + tar_link("l", "later") + tar_file("later", "2") + tar_end()),
      whole_tar("hard_link_to_itself", "not an earlier entry",
                kGood + tar_link("l", "l") + tar_end()),
      whole_tar("hard_link_with_content", "link with content",
                kGood + changed_header(tar_link("l", "x"), 124, "00000000001") + tar_end()),
      tar("file_with_link_target", "no link", changed_header(tar_file("f", "1"), 157, "x")),
      tar("same_path_twice_in_tar", "two entries", kGood),
      tar("file_and_directory_of_one_name", "two entries",
          tar_header({"x", TarType::kDirectory, 0, true, ""})),
      list("same_path_twice_in_config", "sorted", {kX, kX}),
      list("unsorted_config", "sorted", {kX, listed("a", "1")}),
      {"file_below_a_file", "is a file and the directory of",
       [](MaliciousTest& test) {
         return test.archive_of(
             tar_file("a", "1") + tar_file("a-b", "1") + tar_file("a/b", "1") + tar_end(),
             {listed("a", "1"), listed("a-b", "1"), listed("a/b", "1")});
       }},
      list("another_size_in_config", "disagree",
           {with(kX, [](FileEntry& file) { file.size = 2; })}),
      list("another_hash_in_config", "not what the config lists",
           {with(kX, [](FileEntry& file) { file.sha256[0] ^= 1; })}),
      list("a_file_that_no_layer_has", "lacks y", {kX, listed("y", "1")}),
      list("two_hashes_for_one_content", "disagree",
           {kX, with(listed("y", "2"), [](FileEntry& file) { file.from = "x"; })}),
      list("a_layer_that_is_not_there", "a layer that is not there",
           {with(kX, [](FileEntry& file) { file.layer = 3; })}),
      list("absurd_size", "too large", {with(kX, [](FileEntry& file) { file.size = UINT64_MAX; })}),
  };
  return kinds;
}

std::vector<Kind> tar_kinds() {
  const std::string big = tar_file("x", std::string(2000, 'x'));
  std::string padded = kGood;
  padded[kTarBlock + 5] = 'p';
  std::string wrong_sum = kGood;
  wrong_sum[0] = 'y';
  return {
      tar("two_sizes", "disagree", pax("9 size=1\n") + tar_file("y", "12345")),
      tar("negative_pax_size", "malformed PAX size", pax("11 size=-1\n") + tar_file("y", "")),
      tar("pax_size_beyond_64_bits", "malformed PAX size",
          pax("32 size=99999999999999999999999\n") + tar_file("y", "")),
      tar("unknown_pax_record", "PAX record that our writers", pax("12 uid=1234\n")),
      tar("pax_sparse_size", "PAX record that our writers",
          pax("35 GNU.sparse.realsize=99999999999\n")),
      tar("repeated_pax_record", "repeated", pax("12 path=abc\n12 path=abd\n")),
      tar("pax_record_too_long", "malformed PAX", pax("99 path=abc\n")),
      tar("two_pax_headers", "two PAX headers", pax("12 path=abc\n") + pax("12 path=abd\n")),
      whole_tar("pax_header_at_the_end", "without its entry",
                kGood + pax("12 path=abc\n") + tar_end()),
      tar("pax_header_of_impossible_size", "impossible size",
          changed_header(pax("12 path=abc\n"), 124, "77777777777")),
      whole_tar("entry_behind_the_end", "padding",
                kGood + std::string(kTarBlock, '\0') + tar_file("hidden", "2")),
      whole_tar("bytes_in_padding", "padding", padded + tar_end()),
      whole_tar("gnu_magic", "not ustar",
                changed_header(kGood, 257, std::string("ustar  \0", 8)) + tar_end()),
      whole_tar(
          "binary_size", "malformed",
          changed_header(kGood, 124, std::string("\x80\0\0\0\0\0\0\0\0\0\0\1", 12)) + tar_end()),
      whole_tar("negative_size", "malformed",
                changed_header(kGood, 124, "-0000000001") + tar_end()),
      whole_tar("wrong_checksum", "checksum", wrong_sum + tar_end()),
      whole_tar("no_end", "ends in the middle", kGood),
      whole_tar("half_an_end", "ends in the middle", kGood + std::string(kTarBlock, '\0')),
      {"half_a_file", "ends in the middle",
       [big](MaliciousTest& test) {
         return test.archive_of(big.substr(0, 1000), {listed("x", std::string(2000, 'x'))});
       }},
      whole_tar("half_a_header", "ends in the middle", kGood.substr(0, 100)),
  };
}

std::vector<Kind> frame_kinds() {
  const std::string plain = kGood + tar_end();
  const std::string frame = zstd(plain);
  const auto size = static_cast<uint32_t>(frame.size());
  const auto full = static_cast<uint32_t>(plain.size());
  const auto changed = [](std::string bytes, size_t at, char to) {
    bytes[at] = to;
    return bytes;
  };
  const std::string table = seek_table(size, full);
  // A skippable frame in place of the data.
  const std::string skippable = std::string("\x50\x2A\x4D\x18\x04\0\0\0", 8) + "data";
  // Hand-made frame headers: magic, descriptor, then a window of 2^31 or a dictionary's number.
  const std::string magic("\x28\xB5\x2F\xFD", 4);
  const std::string window = magic + std::string("\x00\xA8", 2) + std::string("\x01\0\0", 3);
  const std::string dictionary =
      magic + std::string("\x01\x00\x07", 3) + std::string("\x01\0\0", 3);
  return {
      layer("plain_size_too_small", "decoding", frame + seek_table(size, full - 1)),
      layer("plain_size_too_large", "fewer bytes", frame + seek_table(size, full + 1)),
      layer("empty_frame_in_table", "empty frame", frame + seek_table(size, 0)),
      layer("two_frames_as_one", "another length", frame + frame + seek_table(2 * size, full)),
      layer("table_does_not_fill_the_layer", "do not fill", frame + seek_table(size - 1, full)),
      layer("truncated_frame", "another length",
            frame.substr(0, size - 3) + seek_table(size - 3, full)),
      layer("not_zstd", "not a zstd frame", "not zstd at all" + seek_table(15, full)),
      layer("skippable_frame", "not a zstd frame",
            skippable + seek_table(static_cast<uint32_t>(skippable.size()), full)),
      layer("no_table", "seek table: there is none", frame),
      layer("no_room_for_a_table", "too short", "tiny"),
      layer("bytes_behind_the_table", "seek table: there is none", frame + table + "more"),
      layer("table_of_four_billion_frames", "too long",
            frame + changed(changed(changed(changed(table, 16, '\xFF'), 17, '\xFF'), 18, '\xFF'),
                            19, '\xFF')),
      layer("table_with_checksums", "checksums or unknown flags",
            frame + changed(table, 20, '\x80')),
      layer("table_with_another_header", "header and footer disagree",
            frame + changed(table, 0, '\x50')),
      layer("frame_larger_than_allowed", "a frame of", frame + seek_table(size, 17U << 20)),
      layer("window_bomb", "a zstd window of", window + seek_table(9, full)),
      layer("dictionary", "dictionary", dictionary + seek_table(10, full)),
  };
}

std::vector<Kind> bomb_kinds() {
  const auto bomb = [](MaliciousTest& test) {
    const std::string zeros(80 << 20, '\0');
    return test.put_archive(test.put_layer(tar_file("x", zeros) + tar_end(), 16 << 20),
                            {with(kX, [](FileEntry& file) { file.size = 80 << 20; })});
  };
  std::string many;
  std::vector<FileEntry> files;
  for (int i = 10; i < 40; ++i) {
    many += tar_file("f" + std::to_string(i), "");
    files.push_back(listed("f" + std::to_string(i), ""));
  }
  const auto flood = [many](MaliciousTest& test) {
    return test.archive_of(many + tar_end(), {listed("f10", "")});
  };
  const auto long_list = [many, files](MaliciousTest& test) {
    return test.archive_of(many + tar_end(), files);
  };
  return {
      limited({"bomb_by_ratio", "more than is accepted", bomb},
              [](Limits& limits) { limits.max_ratio = 100; }),
      limited({"bomb_by_size", "too large", bomb},
              [](Limits& limits) { limits.max_plain_bytes = 1 << 20; }),
      limited({"bomb_that_the_config_hides", "more than is accepted",
               [](MaliciousTest& test) {
                 const std::string zeros(80 << 20, '\0');
                 return test.put_archive(test.put_layer(tar_file("x", zeros) + tar_end(), 16 << 20),
                                         {});
               }},
              [](Limits& limits) { limits.max_plain_bytes = 1 << 20; }),
      // Each copy is written, although the layer has the content once.
      limited({"bomb_of_copies", "the files are too large",
               [](MaliciousTest& test) {
                 const std::string text(2000, 'x');
                 std::vector<FileEntry> copies{listed("x", text)};
                 for (int i = 0; i < 9; ++i) {
                   copies.push_back(with(listed("y" + std::to_string(i), text),
                                         [](FileEntry& file) { file.from = "x"; }));
                 }
                 return test.archive_of(tar_file("x", text) + tar_end(), copies);
               }},
              [](Limits& limits) { limits.max_plain_bytes = 10'000; }),
      limited({"too_many_entries_in_tar", "entries", flood},
              [](Limits& limits) { limits.max_entries = 5; }),
      limited({"too_many_files_in_config", "too many files", long_list},
              [](Limits& limits) { limits.max_entries = 5; }),
      limited(config("config_bomb", "larger than accepted",
                     R"({"formatVersion":1)" + std::string(4 << 20, ' ') + "}"),
              [](Limits& limits) { limits.max_config_plain_bytes = 1 << 20; }),
      limited({"too_many_directories_in_config", "too many directories",
               [](MaliciousTest& test) {
                 return test.archive_of(tar_file("a/b/c/d", "") + tar_end(),
                                        {listed("a/b/c/d", "")});
               }},
              [](Limits& limits) { limits.max_directories = 2; }),
      limited({"too_long_paths_in_config", "paths are too long", long_list},
              [](Limits& limits) { limits.max_path_bytes = 89; }),
  };
}

std::string many_values(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += ",0";
  return text;
}

std::vector<Kind> json_kinds() {
  const std::string head = R"({"schemaVersion":2,"artifactType":")" + std::string(kArtifactType) +
                           R"(","config":{"mediaType":")" + kConfigMediaType + R"(",)";
  const std::string digest = R"("digest":"sha256:)" + kHash + "\"";
  return {
      manifest("empty_manifest", "not usable JSON", ""),
      manifest("manifest_is_a_list", "not an archive that this program knows", "[]"),
      manifest("manifest_of_an_image", "artifactType is application/vnd.oci.image.config.v1+json",
               R"({"schemaVersion":2,"artifactType":"application/vnd.oci.image.config.v1+json"})"),
      manifest("manifest_nested_too_deeply", "nested too deeply", std::string(100'000, '[')),
      manifest("manifest_without_config", "another release wrote it",
               R"({"schemaVersion":2,"artifactType":")" + std::string(kArtifactType) + "\"}"),
      manifest("negative_size_of_a_blob", "without usable digest and size",
               head + digest + R"(,"size":-1},"layers":[]})"),
      manifest("absurd_size_of_a_blob", "without usable digest and size",
               head + digest + R"(,"size":18446744073709551615},"layers":[]})"),
      manifest("config_larger_than_accepted", "larger than accepted",
               head + digest + R"(,"size":9223372036854775807},"layers":[]})"),
      manifest("digest_that_is_a_path", "without usable digest and size",
               head + R"("digest":"sha256:../../../etc/passwd","size":1},"layers":[]})"),
      manifest("layers_that_are_no_list", "at most four layers",
               head + digest + R"(,"size":1},"layers":{}})"),
      manifest("five_layers", "at most four layers",
               head + digest + R"(,"size":1},"layers":[{},{},{},{},{}]})"),
      {"manifest_as_its_own_kind_of_layer", "seek table",
       [](MaliciousTest& test) {
         return test.put_archive(test.archive_of(kGood + tar_end(), {kX}), {kX});
       }},
      {"manifest_as_config", "unpacking it",
       [](MaliciousTest& test) {
         const std::string inner = test.archive_of(kGood + tar_end(), {kX});
         return test.put_manifest(inner, {test.put_layer(kGood + tar_end())});
       }},
      {"more_layers_than_the_config_has", "another number of layers",
       [](MaliciousTest& test) {
         const std::string one = test.put_layer(kGood + tar_end());
         Config two;
         two.layers = {{0, 0}, {0, 0}};
         return test.put_manifest(test.put(*encode_config(two)), {one});
       }},
      {"layer_of_another_size", "should have",
       [](MaliciousTest& test) {
         const std::string one = test.put_layer(kGood + tar_end());
         Config list;
         list.layers = {{0, 0}};
         list.files = {kX};
         const std::string text = *encode_config(list);
         Manifest lying;
         lying.config = {kConfigMediaType, test.put(text), text.size()};
         lying.layers = {{kLayerMediaType, one, test.size_of(one) + 1}};
         return test.put(encode_manifest(lying));
       }},
      config("config_without_version", "no format version", "{}"),
      config("config_is_a_number", "no format version", "7"),
      config("config_cut_off", "not JSON", R"({"formatVersion":1,"files":[)"),
      config("config_nested_too_deeply", "nested too deeply",
             R"({"formatVersion":1,"x":)" + std::string(100'000, '[')),
      config("config_of_a_later_version", "format version 9",
             R"({"formatVersion":9,"layers":"?","files":{}})"),
      config("negative_size_of_a_file", "a negative number",
             R"({"formatVersion":1,"files":[{"path":"x","size":-1}]})"),
      config("file_without_hash", "no hash for x",
             R"({"formatVersion":1,"layers":[{}],"files":[{"path":"x","size":1}]})"),
      config("hash_that_is_none", "not 64 lower-case",
             R"({"formatVersion":1,"files":[{"path":"x","sha256":"zz"}]})"),
      config("files_that_are_numbers", "something else than objects",
             R"({"formatVersion":1,"layers":[],"files":[1,2]})"),
      config("config_of_one_long_string", "a string longer than any path",
             R"({"formatVersion":1,"x":")" + std::string(4 << 20, 'x') + "\"}"),
      config("config_of_one_long_name", "a string longer than any path",
             R"({"formatVersion":1,"files":[{")" + std::string(4 << 20, '\\') + "\":1}]}"),
      config("config_of_one_long_number", "a string longer than any path",
             R"({"formatVersion":1,"x":)" + std::string(4 << 20, '1') + "}"),
      config("time_that_is_no_number", "no number of nanoseconds",
             R"({"formatVersion":1,"layers":[{}],"files":[{"path":"x","size":0,"mtime":"1.5"}]})"),
      config("time_beyond_64_bits", "no number of nanoseconds",
             R"({"formatVersion":1,"layers":[{}],"files":[{"path":"x","size":0,"mtime":")" +
                 std::string(30, '9') + "\"}]}"),
      manifest("manifest_of_many_values", "more values than are accepted",
               head + digest + R"(,"size":1},"layers":[],"x":[0)" + many_values(300'000) + "]}"),
      config("too_many_layers_in_config", "too many layers",
             R"({"formatVersion":1,"layers":[{},{},{},{},{}],"files":[]})"),
      {"config_that_is_not_zstd", "unpacking it",
       [](MaliciousTest& test) {
         return test.put_manifest(test.put("not zstd"), {test.put_layer(kGood + tar_end())});
       }},
  };
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> all;
  for (const auto& kinds :
       {path_kinds(), entry_kinds(), tar_kinds(), frame_kinds(), bomb_kinds(), json_kinds()}) {
    all.insert(all.end(), kinds.begin(), kinds.end());
  }
  return all;
}

class Malicious : public MaliciousTest {};

TEST_F(Malicious, EveryKindIsRefusedWithItsMessageAndWritesNothing) {
  const std::vector<Kind> kinds = all_kinds();
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    expect_refused(kind.make(*this), kind.message, kind.limits);
  }
  EXPECT_GE(kinds.size(), 100U);
}

// The same archives as files in tests/testdata/malicious, for readers that others write; without
// those that are only small because of lower limits.
TEST_F(Malicious, EveryFileIsRefusedWithItsMessage) {
  const std::string folder = testing::testdata("malicious/");
  if (std::getenv("CC_UPDATE_GOLDEN") != nullptr) {
    std::ofstream table(folder + "messages.tsv");
    for (const Kind& kind : all_kinds()) {
      const std::string manifest = kind.make(*this);
      pack_blobs(folder + kind.name + ".tar.zst");
      if (!kind.has_limits) {
        table << kind.name << '\t' << manifest << '\t' << kind.message << '\n';
      } else {
        fs::remove(folder + kind.name + ".tar.zst");
      }
    }
  }
  std::ifstream table(folder + "messages.tsv");
  size_t files = 0;
  for (std::string name, manifest, message;
       std::getline(table, name, '\t') && std::getline(table, manifest, '\t') &&
       std::getline(table, message);
       ++files) {
    SCOPED_TRACE(name);
    unpack_blobs(folder + name + ".tar.zst");
    expect_refused(manifest, message, {});
  }
  EXPECT_GE(files, 90U);
}

TEST_F(Malicious, ThisFixtureMakesGoodArchivesToo) {
  const std::string good =
      archive_of(tar_file("torch/x", "content") + tar_end(), {listed("torch/x", "content")});
  EXPECT_EQ(load(good), (Tree{{"x", {"content", false}}}));
}

// Here they are two files. On a file system that ignores case the second would not overwrite the
// first, but fail as it exists already.
TEST_F(Malicious, NamesThatDifferInCaseAreTwoFiles) {
  const std::string both =
      archive_of(tar_file("torch/X", "1") + tar_file("torch/x", "2") + tar_end(),
                 {listed("torch/X", "1"), listed("torch/x", "2")});
  EXPECT_EQ(load(both), (Tree{{"X", {"1", false}}, {"x", {"2", false}}}));
}

// Otherwise a save would turn the wrong files of the parent into a valid archive.
TEST_F(Malicious, NoSaveMakesOneLayerOfWhatIsNotAsListed) {
  Config config;
  std::vector<std::string> layers;
  for (uint32_t i = 0; i < kMaxLayers; ++i) {
    const std::string path = "torch/" + std::to_string(i);
    layers.push_back(put_layer(tar_file(path, path) + tar_end()));
    config.layers.push_back({0, 0});
    config.files.push_back(with(listed(path, path), [&](FileEntry& file) { file.layer = i; }));
  }
  write_tree(temp_.path("new"), {{"new", {"new", false}}});
  const auto save_on = [&](const Config& list) {
    WriteRequest request;
    request.parent = put_manifest(put(*encode_config(list)), layers);
    request.files = sources(temp_.path("new"));
    return write_archive(store_, request);
  };
  const auto good = save_on(config);
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_TRUE(good->compacted);
  EXPECT_EQ(load(good->archive.manifest).size(), 5U);
  const auto is_refused = [&](const Config& list) {
    const auto saved = save_on(list);
    return !saved && saved.error().code == ErrorCode::kCorrupt;
  };
  Config wrong = config;
  wrong.files.push_back(listed("torch/lacking", "x"));
  EXPECT_TRUE(is_refused(wrong));
  wrong = config;
  wrong.files[2].sha256[0] ^= 1;
  EXPECT_TRUE(is_refused(wrong));
}

TEST_F(Malicious, WhatAListSaysOfOneFileItHasToSayOfEach) {
  const auto decoded = [](const std::string& files, const std::string& notes = "") {
    return decode_config(zstd(R"({"formatVersion":1,"layers":[{}],"notes":{)" + notes +
                              R"(},"files":[)" + files + "]}"),
                         {});
  };
  const std::string x = R"({"path":"x","size":1,"sha256":")" + kHash + R"(","layer":)";
  EXPECT_TRUE(decoded(x + "0}"));
  EXPECT_FALSE(decoded(x + "1}")) << "there is one layer";
  EXPECT_FALSE(decoded(x + R"(0},{"path":"y","size":1,"layer":0})")) << "a hash of its own";
  std::string notes = R"("first":"")";
  for (size_t i = 1; i < kMostNotes; ++i) notes += ",\"" + std::to_string(i) + R"(":"")";
  EXPECT_TRUE(decoded("", notes));
  EXPECT_FALSE(decoded("", notes + R"(,"last":"")"));
}

TEST_F(Malicious, MembersThatALaterReleaseAddsAreSkipped) {
  const auto skipped = R"({"new":{"files":[{"path":"../x"}],"size":3},"formatVersion":1,)"
                       R"("layers":[],"files":[],"also":[1,[2],{"layer":9}]})";
  EXPECT_TRUE(decode_config(zstd(skipped), {}));
}

}  // namespace
}  // namespace compilecache::archive::test
