#include <thread>

#include "archive/format.hpp"
#include "tests/unit/store/registry_fixture.hpp"

// Registries that fail: a save is whole or nothing that could be committed, a load exact or an
// error, and the next try succeeds.

namespace compilecache::store::test {
namespace {

using ::testing::HasSubstr;
using Answer = FakeRegistry::Answer;
using Call = FakeRegistry::Call;
using Fault = FakeRegistry::Fault;

const std::vector<std::pair<const char*, Fault>>& faults() {
  static const std::vector<std::pair<const char*, Fault>> all{
      {"cut after it was done", FakeRegistry::cut()},
      {"cut before", FakeRegistry::cut_before()},
      {"500", FakeRegistry::status(500)},
      {"503", FakeRegistry::status(503, "<html>")},
      {"429", FakeRegistry::status(429, "", {{"Retry-After", "1"}})},
      {"429 for long", FakeRegistry::status(429, "", {{"Retry-After", "3600"}})},
      {"404", FakeRegistry::status(404)},
      {"403", FakeRegistry::status(403)},
      {"401", FakeRegistry::status(401)},
      {"400", FakeRegistry::status(400)},
      {"200 and nothing", FakeRegistry::status(200)},
      {"202 and nothing", FakeRegistry::status(202)},
      {"no room", FakeRegistry::status(507)},
      {"no body", FakeRegistry::cut_body(0)},
      {"half a body", FakeRegistry::cut_body(1000)},
  };
  return all;
}

class RegistryFaultsTest : public RegistryTest {
 protected:
  static bool may_pass(const std::string& name) {
    return name.rfind("cut", 0) == 0 || name == "500" || name == "503" || name == "429";
  }
  RegistryStore store_{options()};
  const Tree small_{{"a", {archive::test::noise(20'000, 1), false}}, {"b", {"x", true}}};
};

TEST_F(RegistryFaultsTest, ASaveWhoseNthCallFailsIsWholeOrNotThere) {
  const auto whole = save(store_, small_);
  ASSERT_TRUE(whole);
  const int calls = registry_.calls();
  for (const auto& [name, fault] : faults()) {
    for (int n = 1; n <= calls; ++n) {
      registry_.clear();
      registry_.forget_calls();
      registry_.on_call(n, fault);
      RegistryStore store(options());
      const auto saved = save(store, small_);
      if (may_pass(name)) {
        EXPECT_TRUE(saved) << name << " " << n << ": " << saved.error().message;
      }
      if (!saved) {
        EXPECT_NE(saved.error().code, ErrorCode::kNotFound) << name << " " << n;
        EXPECT_NE(saved.error().code, ErrorCode::kCorrupt) << name << " " << n;
        const auto again = save(store, small_);
        ASSERT_TRUE(again) << name << " " << n << ": " << again.error().message;
      } else {
        const auto loaded = load(store, saved->archive.manifest);
        ASSERT_TRUE(loaded) << name << " " << n << ": " << loaded.error().message;
        EXPECT_EQ(*loaded, small_) << name << " " << n;
      }
    }
  }
}

TEST_F(RegistryFaultsTest, ASaveOnAParentWhoseNthCallFailsNeitherLosesNorInventsOne) {
  const auto parent = save(store_, small_);
  ASSERT_TRUE(parent);
  const Tree more = {{"d", {archive::test::noise(30'000, 9), false}}};
  registry_.forget_calls();
  ASSERT_TRUE(save(store_, more, parent->archive.manifest));
  const int calls = registry_.calls();
  Tree both = small_;
  both.insert(more.begin(), more.end());
  for (const auto& [name, fault] : faults()) {
    for (int n = 1; n <= calls; ++n) {
      registry_.forget_calls();
      registry_.on_call(n, fault);
      RegistryStore store(options());
      const auto saved = save(store, more, parent->archive.manifest);
      // Only a registry that says so makes a blob missing.
      if (!saved && saved.error().code == ErrorCode::kNotFound) {
        EXPECT_STREQ(name, "404") << n << saved.error().message;
      }
      registry_.forget_calls();  // what is there already takes fewer calls
      const auto again = save(store, more, parent->archive.manifest);
      ASSERT_TRUE(again) << name << " " << n << ": " << again.error().message;
      EXPECT_EQ(load(store, again->archive.manifest).value_or(Tree{}), both) << name << " " << n;
    }
  }
}

TEST_F(RegistryFaultsTest, ALoadWhoseNthCallFailsIsExactOrAnError) {
  const auto saved = save(store_, some_tree());
  ASSERT_TRUE(saved);
  registry_.forget_calls();
  ASSERT_TRUE(load(store_, saved->archive.manifest));
  const int calls = registry_.calls();
  for (const auto& [name, fault] : faults()) {
    for (int n = 1; n <= calls; ++n) {
      registry_.forget_calls();
      registry_.on_call(n, fault);
      RegistryStore store(options());
      const auto loaded = load(store, saved->archive.manifest);
      if (may_pass(name)) {
        EXPECT_TRUE(loaded) << name << " " << n << ": " << loaded.error().message;
      }
      if (loaded) {
        EXPECT_EQ(*loaded, some_tree()) << name << " " << n;
      }
      const auto again = load(store, saved->archive.manifest);
      ASSERT_TRUE(again) << name << " " << n << ": " << again.error().message;
      EXPECT_EQ(*again, some_tree());
    }
  }
}

TEST_F(RegistryFaultsTest, AnAnswerThatIsCutAnywhereIsContinuedFromThere) {
  const Tree tree{{"a", {archive::test::noise(1'000'000, 8), false}}};
  const auto saved = save(store_, tree);
  ASSERT_TRUE(saved);
  const size_t size = registry_.content(saved->archive.layers[0]).size();
  for (const size_t after : {size_t{0}, size_t{1}, size_t{70'000}, size / 2, size - 1}) {
    registry_.clear();
    const auto anew = save(store_, tree);
    ASSERT_TRUE(anew);
    bool done = false;
    registry_.on_every_call([&](const Call& call) -> std::optional<Fault> {
      if (done || call.method != "GET" ||
          call.target.find(anew->archive.layers[0]) == std::string::npos ||
          !call.header("range").empty())
        return std::nullopt;
      done = true;
      return FakeRegistry::cut_body(after);
    });
    registry_.forget_calls();
    const auto loaded = load(store_, anew->archive.manifest);
    ASSERT_TRUE(loaded) << after << ": " << loaded.error().message;
    EXPECT_EQ(*loaded, tree);
    EXPECT_TRUE(done);
    EXPECT_EQ(registry_.seen().back().header("range"),
              after == 0 ? "" : "bytes=" + std::to_string(after) + "-");
    registry_.on_every_call(nullptr);
  }
}

TEST_F(RegistryFaultsTest, AnswersThatAreAlwaysCutEndTheLoad) {
  const Tree tree{{"a", {archive::test::noise(1'000'000, 8), false}}};
  const auto saved = save(store_, tree);
  ASSERT_TRUE(saved);
  registry_.on_every_call([&](const Call& call) -> std::optional<Fault> {
    if (call.method != "GET" || call.target.find("blobs") == std::string::npos) return std::nullopt;
    return FakeRegistry::cut_body(100'000);
  });
  registry_.forget_calls();
  const auto loaded = load(store_, saved->archive.manifest);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnavailable) << loaded.error().message;
  EXPECT_EQ(loaded.error().reason, kReasonUnreachable);
  EXPECT_LE(registry_.calls(), 8);
}

TEST_F(RegistryFaultsTest, AWrongByteIsFoundOutAndItsBlobNamed) {
  const auto saved = save(store_, many_files());
  ASSERT_TRUE(saved);
  for (const std::string& blob : saved->archive.blobs()) {
    const std::string right = registry_.content(blob);
    for (const size_t at : {size_t{0}, right.size() / 2, right.size() - 1}) {
      registry_.on_every_call([&](const Call& call) -> std::optional<Fault> {
        if (call.target.find(blob) == std::string::npos) return std::nullopt;
        return [&](const auto&) {
          std::string wrong = right;
          wrong[at] = static_cast<char>(wrong[at] ^ 1);
          return Answer{.body = wrong};
        };
      });
      const auto loaded = load(store_, saved->archive.manifest);
      ASSERT_FALSE(loaded) << blob << " " << at;
      EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt) << loaded.error().message;
      EXPECT_EQ(loaded.error().digest, blob);
    }
    registry_.on_every_call(nullptr);
  }
  EXPECT_TRUE(load(store_, saved->archive.manifest));
}

TEST_F(RegistryFaultsTest, ALostBlobIsMissingAndNamed) {
  const auto saved = save(store_, many_files());
  ASSERT_TRUE(saved);
  for (const std::string& blob : {saved->archive.layers[0], saved->archive.config}) {
    const auto content = registry_.take(blob);
    const auto loaded = load(store_, saved->archive.manifest);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound) << loaded.error().message;
    EXPECT_EQ(loaded.error().digest, blob);
    const auto onto = save(store_, {{"d", {"more", false}}}, saved->archive.manifest);
    ASSERT_FALSE(onto);
    EXPECT_EQ(onto.error().code, ErrorCode::kNotFound) << "a lost parent";
    EXPECT_EQ(onto.error().digest, blob);
    registry_.put(blob, *content);
  }
}

// As a collection in a running registry does it.
TEST_F(RegistryFaultsTest, BlobsThatGoBeforeTheManifestComesArePushedAgain) {
  for (const int status : {400, 404}) {
    registry_.clear();
    bool taken = false;
    registry_.on_every_call([&](const Call& call) -> std::optional<Fault> {
      if (taken || call.method != "PUT" || call.target.find("manifests") == std::string::npos)
        return std::nullopt;
      taken = true;
      return [&, status](const auto&) {
        registry_.clear_now();
        return Answer{.status = status, .body = R"({"errors":[{"code":"BLOB_UNKNOWN"}]})"};
      };
    });
    const auto saved = save(store_, some_tree());
    ASSERT_TRUE(saved) << saved.error().message;
    EXPECT_TRUE(taken);
    EXPECT_EQ(*load(store_, saved->archive.manifest), some_tree());
  }
}

TEST_F(RegistryFaultsTest, WithoutRoomToKeepThemTheSaveIsTriedAgain) {
  // Layer and config together are more than is kept, each alone is not.
  RegistryOptions small = options();
  small.spool_limit = 471'500;
  RegistryStore store(small);
  bool taken = false;
  registry_.on_every_call([&](const Call& call) -> std::optional<Fault> {
    if (taken || call.method != "PUT" || call.target.find("manifests") == std::string::npos)
      return std::nullopt;
    taken = true;
    return [&](const auto&) {
      registry_.clear_now();
      return Answer{.status = 400, .body = R"({"errors":[{"code":"MANIFEST_BLOB_UNKNOWN"}]})"};
    };
  });
  const auto saved = save(store, some_tree());
  EXPECT_TRUE(taken);
  if (!saved) {
    EXPECT_EQ(saved.error().code, ErrorCode::kUnavailable) << saved.error().message;
    EXPECT_TRUE(registry_.manifests().empty());
  }
  EXPECT_TRUE(save(store, some_tree()));
}

TEST_F(RegistryFaultsTest, WhatIsLostBeforeTheCommitFailsTheSave) {
  // Gone once the manifest is there.
  bool taken = false;
  registry_.on_every_call([&](const Call& call) -> std::optional<Fault> {
    if (taken || call.method != "PUT" || call.target.find("manifests/g") == std::string::npos)
      return std::nullopt;
    taken = true;
    return [&](const auto& usual) {
      Answer answer = usual();
      registry_.clear_now();
      return answer;
    };
  });
  const auto saved = save(store_, some_tree());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kUnavailable) << saved.error().message;
  const auto again = save(store_, some_tree());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(load(store_, again->archive.manifest));
}

// A blob that a registry lost of an already checked parent is the parent's loss.
TEST_F(RegistryFaultsTest, AParentsLayerThatIsLostInTheMeantimeIsNamed) {
  const auto parent = save(store_, some_tree());
  ASSERT_TRUE(parent);
  const std::string layer = parent->archive.layers[0];
  bool taken = false;
  registry_.on_every_call([&](const Call& call) -> std::optional<Fault> {
    if (taken || call.method != "POST") return std::nullopt;
    taken = true;
    return [&](const auto& usual) {
      registry_.take_now(layer);
      return usual();
    };
  });
  RegistryStore store(options());
  const auto saved =
      save(store, {{"d", {archive::test::noise(90'000, 9), false}}}, parent->archive.manifest);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kNotFound) << saved.error().message;
  EXPECT_EQ(saved.error().digest, layer);
}

TEST_F(RegistryFaultsTest, EveryTroubleIsTold) {
  for (const auto& [status, body, reason] :
       {std::tuple{401, "", kReasonUnauthorized},
        {403, "", kReasonUnauthorized},
        {403, R"({"errors":[{"code":"DENIED","message":"quota exceeded"}]})", kReasonFull},
        {413, "", kReasonFull},
        {404, R"({"errors":[{"code":"NAME_UNKNOWN"}]})", kReasonNoRepository},
        {429, "", kReasonUnreachable},
        {500, "", kReasonUnreachable},
        {500, "no space left on device", kReasonFull}}) {
    registry_.refuse([&](const Call& call) -> std::optional<Answer> {
      if (call.method == "HEAD") return std::nullopt;
      return Answer{.status = status, .body = body};
    });
    const auto saved = save(store_, some_tree());
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().reason, reason) << saved.error().message;
    EXPECT_NE(saved.error().code, ErrorCode::kNotFound) << saved.error().message;
    registry_.refuse(nullptr);
    EXPECT_TRUE(save(store_, {{"new", {archive::test::noise(2000, registry_.calls()), false}}}));
  }
}

TEST_F(RegistryFaultsTest, ARegistryThatDoesNotAnswerIsUnreachable) {
  std::string nobody;
  {
    const FakeRegistry gone;
    nobody = gone.host();
  }
  RegistryOptions there = options();
  there.host = nobody;
  RegistryStore store(there);
  const auto saved = save(store, some_tree());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().reason, kReasonUnreachable);
  EXPECT_THAT(saved.error().message, HasSubstr(nobody));
}

TEST_F(RegistryFaultsTest, ACallThatStallsEndsByTheTimeForASave) {
  ASSERT_TRUE(save(store_, small_));
  const int calls = registry_.calls();
  RegistryOptions patient = options();
  patient.stall_timeout = patient.answer_timeout = std::chrono::hours(1);
  for (int n = 1; n <= calls; ++n) {
    registry_.clear();
    registry_.forget_calls();
    RegistryStore store(patient);
    registry_.on_call(n, [&](const auto& usual) {
      store.end_by(std::chrono::steady_clock::now());
      return FakeRegistry::stall()(usual);
    });
    const auto saved = save(store, small_);
    ASSERT_FALSE(saved && store.sync()) << n;
    if (!saved) {
      EXPECT_EQ(saved.error().code, ErrorCode::kCancelled) << saved.error().message;
    }
    // Nothing comes after it, but for what had been sent by then where two blobs are pushed.
    const bool two = n > 1 && n < 7;
    EXPECT_GE(registry_.calls(), n);
    EXPECT_LE(registry_.calls(), two ? n + 1 : n);
    RegistryStore another(options());
    const auto healed = save(another, small_);
    ASSERT_TRUE(healed) << n << ": " << healed.error().message;
    EXPECT_EQ(load(another, healed->archive.manifest).value(), small_) << n;
  }
}

TEST_F(RegistryFaultsTest, APauseEndsByTheTimeForASave) {
  RegistryOptions pausing = options();
  pausing.sleep = nullptr;
  pausing.retries.longest_pause = pausing.retries.all_pauses = std::chrono::hours(2);
  RegistryStore store(pausing);
  std::thread ending;
  registry_.on_call(1, [&](const auto&) {
    ending = std::thread([&] {
      // Not before the answer has arrived.
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      store.end_by(std::chrono::steady_clock::now());
    });
    return Answer{.status = 503, .headers = {{"Retry-After", "3600"}}};
  });
  const auto saved = save(store, small_);
  ending.join();
  ASSERT_FALSE(saved);
  EXPECT_EQ(registry_.calls(), 1);
  EXPECT_THAT(saved.error().message, HasSubstr("503"));
}

TEST_F(RegistryFaultsTest, NoSpaceHereIsNotTheRegistrys) {
  EXPECT_EQ(store_.trouble({ErrorCode::kIo, "x", "", ENOSPC}, Use::kWrite), Trouble::kDiskFull);
  EXPECT_EQ(store_.trouble({ErrorCode::kUnavailable, "files keep changing"}, Use::kWrite),
            Trouble::kOther);
}

}  // namespace
}  // namespace compilecache::store::test
