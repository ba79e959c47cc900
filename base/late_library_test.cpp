#include "base/late_library.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"

namespace tern {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "";
}

TEST(LateLibrary, FindsFunctionsOfTheFirstLibraryThatIsThere) {
  LateLibrary math({"libnowhere-of-tern.so.7", "libm.so.6"}, "the test needs it");
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(math.function("sqrt"))(9), 3);
  EXPECT_EQ(message_of([&] { math.function("no_such_function"); }),
            "libnowhere-of-tern.so.7: has no function no_such_function; the test needs it");
}

TEST(LateLibrary, SaysWhatIsMissingAndWhatNeedsIt) {
  LateLibrary none({"libnowhere-of-tern.so.7"}, "products need it: install it");
  const std::string said = message_of([&] { none.load(); });
  EXPECT_TRUE(said.starts_with("libnowhere-of-tern.so.7: ")) << said;
  EXPECT_TRUE(said.ends_with("; products need it: install it")) << said;
}

}  // namespace
}  // namespace tern
