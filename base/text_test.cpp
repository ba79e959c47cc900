#include "base/text.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(Text, SplitsWrapsAndReplaces) {
  EXPECT_EQ(trim("  a b\n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_EQ(split("a,,b", ',').size(), 3u);
  EXPECT_EQ(split_words("  a  b ").size(), 2u);
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(replace_all("aaa", "a", "aa"), "aaaaaa");
  EXPECT_EQ(wrap_text("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap_text("abcdefghij k", 4), (std::vector<std::string>{"abcdefghij", "k"}));
  EXPECT_EQ(labelled("tied", "none"), "tied       none\n");
  EXPECT_EQ(labelled("", ""), "           \n");
  const std::string wide(100, 'x');
  EXPECT_EQ(labelled("run", wide + " " + wide), "run        " + wide + "\n           " + wide + "\n");
  EXPECT_EQ(make_printable("a\x1b[1m\xff"), "a\\x1b[1m\xEF\xBF\xBD");
}

TEST(EditDistance, CountsTheFourMistakes) {
  EXPECT_EQ(edit_distance("train", "train"), 0);
  EXPECT_EQ(edit_distance("trian", "train"), 1) << "swap";
  EXPECT_EQ(edit_distance("tran", "train"), 1);
  EXPECT_EQ(edit_distance("traiin", "train"), 1);
  EXPECT_EQ(edit_distance("trayn", "train"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("ca", "abc"), 3) << "no letter is edited twice";
}

TEST(NearestName, SuggestsOnlyWhatIsNear) {
  const std::vector<std::string_view> names = {"learning-rate", "min-learning-rate", "batch", "beta1", "beta2"};
  EXPECT_EQ(nearest_name("learning_rate", names), "learning-rate");
  EXPECT_EQ(nearest_name("lerning-rate", names), "learning-rate");
  EXPECT_EQ(nearest_name("bacth", names), "batch");
  EXPECT_EQ(nearest_name("learning", names), "learning-rate") << "an unfinished name";
  EXPECT_EQ(nearest_name("zzzzz", names), "");
  EXPECT_EQ(nearest_name("4", {"0", "1", "2"}), "") << "a number is no mistyped other one";
  EXPECT_EQ(did_you_mean("bacth", names, "--"), "; did you mean '--batch'?");
  EXPECT_EQ(did_you_mean("zzzzz", names), "");
}

}  // namespace
}  // namespace tern
