#include "apps/calibration_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibrate/run_words.h"

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

TEST(CalibrationReport, ARunIsSaidByWhatIsNotUsual) {
  const std::vector<PublishedRun> runs = parse_runs(
      "gpus,global batch,hidden size,attention heads,layers,sequence length,tensor parallelism,zero,recompute,sequence "
      "parallelism,"
      "tensor overlap,gradient sums\n"
      "3,6,96,3,2,7,3,0,full,on,off,\n3,6,96,3,2,7,3,1,scores,off,gradients,apart\n3,6,96,3,2,7,3,0,none,on,on,in "
      "products\n",
      "t.csv");
  const std::string usual = to_string(runs[0].choice);
  EXPECT_EQ(run_words(runs[0]), usual);
  EXPECT_EQ(run_words(runs[1]),
            usual + ", zero 1, recompute scores, norms of all rows, tensor overlap of gradients, sums apart");
  EXPECT_EQ(run_words(runs[2]), usual + ", recompute none, tensor overlap, sums in products");
  const PublishedRun gathered = parse_runs(
      "gpus,global batch,hidden size,attention heads,layers,sequence length,context parallelism,context "
      "exchange,zero,weight gathers\n"
      "2,2,64,2,2,8,2,gather,1,beside\n",
      "t.csv")[0];
  EXPECT_EQ(run_words(gathered), to_string(gathered.choice) + ", zero 1, gathers beside, context gathered");
}

TEST(CalibrationReport, PlansOfAnotherFormulaAreWarnedOf) {
  Calibration c;
  EXPECT_NE(unlike_words(c).find("the calibration does not say how its runs computed"), std::string::npos);
  c.traits = FrameworkTraits{};
  EXPECT_EQ(unlike_words(c), "");
}

}  // namespace
}  // namespace tern
