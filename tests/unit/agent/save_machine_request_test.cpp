#include <gtest/gtest.h>

#include "tests/unit/agent/save_machine_driver.hpp"

// The saver's machine when the application asks for a save.

namespace compilecache::agent::saver {
namespace {

TEST(SaveMachine, TheAppIsServedWithoutSilenceAndAnsweredBeforeTheOperatorIsTold) {
  Machine m;
  m.look(m.unfinished(milliseconds(0)), m.wall);
  EXPECT_FALSE(m.has<Save>());
  EXPECT_EQ(m.find<Pause>()->time, kRequestSettles);
  EXPECT_TRUE(m.take(Paused{}).has<ReadRequest>());
  const WallTime again = m.wall + milliseconds(5);
  const auto save = m.take(RequestRead{again}).find<Save>();
  ASSERT_TRUE(save);
  EXPECT_TRUE(save->asked);
  m.answer(saved());
  ASSERT_EQ(m.actions.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<AnswerApp>(m.actions[0]));
  EXPECT_EQ(m.find<AnswerApp>()->asked, again) << "of the second of its two steps";
  EXPECT_EQ(m.find<AnswerApp>()->result.outcome, api::Outcome::kSuccess);
  EXPECT_TRUE(m.find<NoteResult>()->for_operator);
  EXPECT_TRUE(m.tell().has<Wait>());
}

// Up to the first try.
Machine& ask(Machine& m, WallTime at) {
  m.look(m.nothing_new(), at);
  return m.take(Paused{}).take(RequestRead{at});
}

TEST(SaveMachine, ARequestThatCannotBeTakenAwayIsServedOnceAndALaterOneToo) {
  Machine m;
  const WallTime first = m.wall;
  ask(m, first).answer(saved()).tell();
  EXPECT_TRUE(m.look(m.nothing_new(), first).has<Wait>());
  EXPECT_TRUE(m.look(m.nothing_new(), first + seconds(1)).has<Pause>());
}

TEST(SaveMachine, ARequestThatVanishesMeanwhileIsServed) {
  Machine m;
  const WallTime first = m.wall;
  m.look(m.nothing_new(), first).take(Paused{}).take(RequestRead{});
  EXPECT_TRUE(m.has<Save>());
  EXPECT_EQ(m.answer(saved()).find<AnswerApp>()->asked, first);
}

TEST(SaveMachine, AnAppThatAsksWaitsAMinuteForOtherPodsSaves) {
  Machine m;
  ask(m, m.wall);
  int tries = 0;
  while (m.has<Save>()) {
    ++tries;
    m.answer(busy(seconds(7)));
    if (!m.has<Pause>()) break;
    EXPECT_EQ(m.find<Pause>()->time, seconds(7));
    EXPECT_FALSE(m.has<AnswerApp>());
    m.pass(seconds(7)).take(Paused{});
  }
  EXPECT_EQ(tries, 10) << "at 0, 7, ... 63 s";
  EXPECT_EQ(m.find<AnswerApp>()->result.reason, "busy");
  EXPECT_FALSE(m.find<NoteResult>()->for_operator);
  EXPECT_TRUE(m.has<Wait>());
}

TEST(SaveMachine, OnlyOtherPodsSavesAreWaitedFor) {
  Machine m;
  ask(m, m.wall).answer(unanswered());
  EXPECT_EQ(m.find<AnswerApp>()->result.reason, "operator_unreachable");
}

TEST(SaveMachine, ThePodsEndEndsTheWaitForOtherPodsSaves) {
  Machine m;
  ask(m, m.wall).answer(busy());
  m.end_pod().take(Paused{false});
  EXPECT_EQ(m.find<AnswerApp>()->result.reason, "busy");
  EXPECT_TRUE(m.find<NoteResult>()->for_operator);
  m.tell();
  EXPECT_EQ(m.take(Woken{}).find<Look>()->what, Look::For::kFiles);
}

TEST(SaveMachine, ARequestSeenAtThePodsEndIsTriedForAsLongAsThereIsTime) {
  Machine m;
  m.end_pod();
  m.take(Looked{m.nothing_new(), m.wall}).take(RequestRead{m.wall});
  EXPECT_TRUE(m.find<Pause>()->to_the_end);
  m.take(Paused{}).take(RequestRead{m.wall});
  EXPECT_TRUE(m.find<Save>()->final_save);
  m.answer(busy());
  EXPECT_EQ(m.find<Pause>()->time, kFirstPause) << "not the whole five seconds";
  m.pass(seconds(14)).take(Paused{});
  EXPECT_TRUE(m.has<Save>());
  m.answer(busy()).pass(seconds(1)).take(Paused{});
  EXPECT_TRUE(m.has<AnswerApp>());
}

TEST(SaveMachine, AskedForWhereItIsOffItSaysWhy) {
  Settings settings = usual();
  settings.saves = false;
  settings.why_not = "the pod's mode is ReadOnly";
  Machine m(settings);
  EXPECT_FALSE(m.look(m.made(kQuiet)).has<Save>());
  ask(m, m.wall);
  EXPECT_FALSE(m.has<Save>());
  EXPECT_EQ(m.find<AnswerApp>()->result.reason, "saving_is_off");
  EXPECT_EQ(m.find<AnswerApp>()->result.message, "saving is off: the pod's mode is ReadOnly");
  EXPECT_FALSE(m.has<NoteResult>());
  EXPECT_TRUE(m.has<Wait>());
}

}  // namespace
}  // namespace compilecache::agent::saver
