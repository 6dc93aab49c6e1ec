#include <gtest/gtest.h>

#include <new>

#include "archive/layer/layer_reader.hpp"

namespace compilecache::archive {
namespace {

TEST(ReadSession, AnExceptionInATaskIsAFailureOfTheSession) {
  ReadSession session({});
  session.pool.post([&] { session.guarded([]() -> Status { throw std::bad_alloc(); }); });
  session.pool.drain();
  const auto status = session.check();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInternal);
}

TEST(ReadSession, TheFirstErrorOfATaskIsTheSessions) {
  ReadSession session({});
  session.guarded([] { return Status(); });
  EXPECT_TRUE(session.check());
  session.guarded([]() -> Status { return fail(ErrorCode::kCorrupt, "first"); });
  session.guarded([]() -> Status { return fail(ErrorCode::kIo, "second"); });
  EXPECT_EQ(session.check().error().message, "first");
}

}  // namespace
}  // namespace compilecache::archive
