#include "calibrate/run_set.h"

#include <gtest/gtest.h>

#include "calibrate/a100_testing.h"

namespace tern {
namespace {

AgreedTraits agreed(const std::string& rows) {
  const RunSet runs(
      parse_runs("gpus,global batch,hidden size,attention heads,layers,sequence length,tensor parallelism,"
                 "products,gradient sums,sequence parallelism,tensor overlap\n" +
                     rows,
                 "t.csv"),
      a100(), "t.csv");
  return runs.traits(runs.all());
}

TEST(RunSet, RowsAgreeOnHowTheyComputed) {
  const AgreedTraits a =
      agreed("2,6,96,3,2,7,1,8-bit,in products,off,gradients\n3,6,96,3,2,7,3,8-bit,in products,on,gradients\n");
  EXPECT_TRUE(a.differ.empty()) << "without tensor ranks nothing is said of their groups";
  EXPECT_EQ(a.traits,
            (FrameworkTraits{.product_rate = 2, .sums = GradientSums::in_products, .hides_input_gradient_sums = true}));
  EXPECT_EQ(agreed("1,6,96,3,2,7,1,,,off,gradients\n").traits, FrameworkTraits{});
}

TEST(RunSet, ColumnsInWhichRowsDifferAreNamed) {
  const AgreedTraits a = agreed("3,6,96,3,2,7,3,8-bit,apart,on,off\n3,6,96,3,2,7,3,16-bit,apart,off,gradients\n");
  EXPECT_EQ(a.differ, (std::vector<std::string_view>{"products", "sequence parallelism", "tensor overlap"}));
  EXPECT_EQ(a.traits, FrameworkTraits{.sums = GradientSums::apart});
  EXPECT_EQ(agreed("1,6,96,3,2,7,1,,apart,,\n1,6,96,3,2,7,1,,in products,,\n").differ,
            (std::vector<std::string_view>{"gradient sums"}));
}

TEST(RunSet, OnlyRowsThatShareStatesOrContextsSayHow) {
  const auto agreed = [](const std::string& rows) {
    const RunSet runs(parse_runs("gpus,global batch,hidden size,attention heads,layers,sequence length,context "
                                 "parallelism,zero,weight gathers,context exchange\n" +
                                     rows,
                                 "t.csv"),
                      a100(), "t.csv");
    return runs.traits(runs.all());
  };
  EXPECT_TRUE(agreed("1,6,96,3,2,8,1,0,before,ring\n2,6,96,3,2,8,2,1,beside,gather\n").differ.empty());
  EXPECT_EQ(agreed("2,6,96,3,2,8,2,2,before,ring\n2,6,96,3,2,8,2,1,beside,gather\n").differ,
            (std::vector<std::string_view>{"weight gathers", "context exchange"}));
}

}  // namespace
}  // namespace tern
