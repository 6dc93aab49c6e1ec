#include "cli/text/manifest_yaml.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace compilecache::cli {
namespace {

Manifest read_one(const std::string& text) {
  const auto documents = read_manifests(text, "x.yaml");
  EXPECT_TRUE(documents) << documents.error().message;
  if (!documents || documents->size() != 1) return "not one document";
  return documents->front();
}

TEST(ManifestYaml, PlainScalarsHaveTheTypesThatKubectlGivesThem) {
  const Manifest read = read_one(R"(
integers: [1, -2, +3, 0x1F, 0644, 0o17, 0b11]
reals: [1.5, 1e3]
booleans: [true, yes, on, False, no, off]
nothing: [~, null, ]
texts: ["1", 'yes', 1Gi, 500m, 12:30:45, "", trueish, 1.2.3, 0x, 09z]
block: |
  0644
)");
  EXPECT_EQ(read["integers"], Manifest({1, -2, 3, 31, 420, 15, 3}));
  EXPECT_EQ(read["reals"], Manifest({1.5, 1000.0}));
  EXPECT_EQ(read["booleans"], Manifest({true, true, true, false, false, false}));
  EXPECT_EQ(read["nothing"], Manifest::parse("[null, null]"));
  EXPECT_EQ(read["texts"],
            Manifest({"1", "yes", "1Gi", "500m", "12:30:45", "", "trueish", "1.2.3", "0x", "09z"}));
  EXPECT_EQ(read["block"], "0644\n");
}

TEST(ManifestYaml, KeysKeepTheirOrderAndMergesAreExpanded) {
  const Manifest read = read_one(R"(
base: &base {b: 1, a: 2}
z: {<<: *base, a: 3}
)");
  EXPECT_EQ(read.dump(), R"({"base":{"b":1,"a":2},"z":{"a":3,"b":1}})");
}

TEST(ManifestYaml, DocumentsAreSeparateAndEmptyOnesLeftOut) {
  const auto documents = read_manifests("---\n# only a comment\n---\na: 1\n---\nb: 2\n", "x.yaml");
  ASSERT_TRUE(documents);
  EXPECT_EQ(*documents, (std::vector<Manifest>{{{"a", 1}}, {{"b", 2}}}));
}

TEST(ManifestYaml, ABlockScalarHasItsLastNewlineAlsoAtTheEndOfAFileWithoutOne) {
  for (const char* text : {"a: |\n  x\n  y", "a: |\n  x\n  y\n", "a: |\n  x\n  y\n---\nb: 1"}) {
    EXPECT_EQ(read_manifests(text, "x.yaml").value().front()["a"], "x\ny\n") << text;
  }
  EXPECT_EQ(read_manifests("a: |-\n  x", "x.yaml").value().front()["a"], "x");
}

TEST(ManifestYaml, JsonIsReadAsJson) {
  EXPECT_EQ(read_one(" {\"z\": \"\\ud83d\\ude00\", \"a\": [1]}").dump(),
            "{\"z\":\"\xF0\x9F\x98\x80\",\"a\":[1]}");
  EXPECT_EQ(read_one("{flow: style}"), Manifest({{"flow", "style"}}));
}

TEST(ManifestYaml, WhatCannotBeReadIsSaidWithFileAndLine) {
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {"a: 1\nb: [1,\n", "x.yaml, line "},
           {"a: 1\na: 2\n", "x.yaml, line 2: the key a is there twice"},
           {"? [a]\n: 1\n", "a key must be a text"},
           {"a: \"\xFF\"\n", "x.yaml"},
           {std::string(2000, '['), "x.yaml"}}) {
    const auto documents = read_manifests(text, "x.yaml");
    ASSERT_FALSE(documents) << text;
    EXPECT_NE(documents.error().message.find(said), std::string::npos) << documents.error().message;
  }
}

TEST(ManifestYaml, AliasesThatStandForBillionsAreRefused) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) text += ", " + before;
    text += "]\n";
  }
  EXPECT_FALSE(read_manifests(text, "x.yaml"));
}

TEST(ManifestYaml, WhatIsWrittenReadsTheSame) {
  Manifest texts = Manifest::array();
  for (const char* text : {"",
                           "a",
                           "y",
                           "N",
                           "yes",
                           "true",
                           "null",
                           "~",
                           "1",
                           "-1",
                           "0644",
                           "1.5",
                           "1e3",
                           ".inf",
                           "-.inf",
                           "12:30:45",
                           "1_000",
                           "2001-01-01",
                           "-",
                           "--",
                           "---",
                           "--option=1",
                           "-c",
                           "- x",
                           "a: b",
                           "a:",
                           "a #b",
                           "#a",
                           " a",
                           "a ",
                           "'",
                           "\"",
                           "it's",
                           "\\",
                           "{a}",
                           "[a",
                           "*a",
                           "&a",
                           "!a",
                           "%a",
                           "@a",
                           "`a",
                           "?",
                           ": a",
                           "|",
                           ">",
                           "<<",
                           "=",
                           "a\nb",
                           "a\nb\n",
                           "a\nb\n\n",
                           "\na\n",
                           " a\nb\n",
                           "a\n",
                           "\n",
                           "a\n\n\nb\n",
                           "a\n  b\n    c\n",
                           "\ta\nb\n",
                           "a\rb",
                           "\x01",
                           "\x7F",
                           "gr\xC3\xBC\xC3\x9F",
                           "\xF0\x9F\x98\x80",
                           "$(A) $$ ${B}",
                           R"({"json": ["text", "it's", 1]})",
                           "/a/b:c=d",
                           "//",
                           "registry:5000/a@sha256:00"}) {
    texts.push_back(text);
  }
  Manifest keys = Manifest::object();
  for (const Manifest& text : texts) keys[text.get<std::string>()] = 1;
  const Manifest all = {{"texts", texts},
                        {"nested", {{{"list", texts}, {"block", "a\nb\n"}}}},
                        {"after", "a\nb\n"},
                        {"keys", keys},
                        {"numbers", {0, -1, 18446744073709551615U, 1.5, 1e300}},
                        {"others", {true, false, nullptr, Manifest::object(), Manifest::array()}}};
  const std::string written = write_manifest(all);
  EXPECT_EQ(read_one(written).dump(), all.dump()) << written;
  EXPECT_EQ(written, write_manifest(read_one(written)));
}

TEST(ManifestYaml, ScriptsStayReadable) {
  EXPECT_EQ(write_manifest({{"command", {"sh", "-c", "echo a\necho b\n"}}}),
            "command:\n  - sh\n  - -c\n  - |\n    echo a\n    echo b\n\n");
}

}  // namespace
}  // namespace compilecache::cli
