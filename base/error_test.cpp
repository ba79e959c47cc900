#include "base/error.h"
#include "base/bug.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace tern {
namespace {

TEST(Error, CarriesKindAndFormattedMessage) {
  const Error error(ErrorKind::bad_file, "{}: {} tensors", "model", 3);
  EXPECT_EQ(error.kind(), ErrorKind::bad_file);
  EXPECT_STREQ(error.what(), "model: 3 tensors");
}

TEST(Error, KindsAreTheExitCodesOfTheDocumentation) {
  EXPECT_EQ(static_cast<int>(ErrorKind::bug), 1);
  EXPECT_EQ(static_cast<int>(ErrorKind::usage), 2);
  EXPECT_EQ(static_cast<int>(ErrorKind::does_not_fit), 3);
  EXPECT_EQ(static_cast<int>(ErrorKind::bad_file), 4);
  EXPECT_EQ(static_cast<int>(ErrorKind::peer), 5);
  EXPECT_EQ(static_cast<int>(ErrorKind::no_checkpoint), 6);
  EXPECT_EQ(static_cast<int>(ErrorKind::interrupted), 75);
}

TEST(TernCheck, ThrowsABugThatNamesFileConditionAndFacts) {
  int evaluated = 0;
  EXPECT_NO_THROW(TERN_CHECK(++evaluated == 1, "never {}", "seen"));
  EXPECT_EQ(evaluated, 1) << "the condition is evaluated once, in release builds too";
  try {
    TERN_CHECK(evaluated == 2, "lower: {} stages", evaluated);
    FAIL();
  } catch (const Bug& bug) {
    const std::string text = bug.what();
    EXPECT_NE(text.find("error_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("lower: 1 stages"), std::string::npos) << text;
    EXPECT_NE(text.find("evaluated == 2"), std::string::npos) << text;
    EXPECT_EQ(text.find('/'), std::string::npos) << "no machine paths in messages: " << text;
  }
}

// Who catches bad input must not take a bug for it.
static_assert(!std::is_base_of_v<Error, Bug> && !std::is_base_of_v<Bug, Error>);

}  // namespace
}  // namespace tern
