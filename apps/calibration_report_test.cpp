#include "apps/calibration_report.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(CalibrationReport, FewRunsAreCalledFew) {
  Calibration c;
  EXPECT_EQ(few_words(c), "");  // nothing is said of an error that is not known
  c.left_out.rows = 4;
  EXPECT_NE(few_words(c).find("rests on 4 runs left out"), std::string::npos);
  c.left_out.rows = 5;
  EXPECT_EQ(few_words(c), "");
}

}  // namespace
}  // namespace tern
