#include "base/familiar_words.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/options.h"

namespace tern {
namespace {

const OptionTable& table() {
  static const OptionTable t{
      .verbs = {{.name = "train", .summary = "x"}, {.name = "adapt", .summary = "x"}},
      .options = {{.name = "steps", .verbs = "train", .type = OptionType::integer, .help = "x"},
                  {.name = "learning-rate", .verbs = "train", .type = OptionType::real, .help = "x"}},
      .environment = {}};
  return t;
}

std::string refusal(const std::string& flag) {
  try {
    resolve_options(table(), "train", {flag, "3"}, {});
  } catch (const Error& e) { return e.what(); }
  return "";
}

TEST(FamiliarWords, OfOtherProgramsNameWhatIsHere) {
  EXPECT_NE(refusal("--epochs").find("did you mean '--steps'?"), std::string::npos) << refusal("--epochs");
  EXPECT_NE(refusal("--lr").find("did you mean '--learning-rate'?"), std::string::npos) << refusal("--lr");
  EXPECT_NE(refusal("--max_steps").find("did you mean '--steps'?"), std::string::npos) << refusal("--max_steps");
  // A word for what this verb has not says nothing.
  EXPECT_EQ(refusal("--max-new-tokens").find("did you mean"), std::string::npos) << refusal("--max-new-tokens");
  EXPECT_EQ(familiar_option("zzz"), "");
}

TEST(FamiliarWords, OfVerbsToo) {
  try {
    find_verb(table(), "finetune");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'adapt'?"), std::string::npos) << e.what();
  }
  EXPECT_EQ(familiar_verb("zzz"), "");
}

}  // namespace
}  // namespace tern
