#include "base/toml.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/options.h"

namespace tern {
namespace {

std::string repeated(const std::string& part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

TEST(Toml, RefusesDepthThatWouldOverflowTheStack) {
  const std::string a = "a" + repeated(".a", 200'000);
  for (const std::string& text : {"[" + a + "]\n", "[[" + a + "]]\n", a + " = 1\n", "x = { " + a + " = 1 }\n"}) {
    try {
      parse_toml("ok = 1\n" + text, "file.toml");
      ADD_FAILURE() << text.substr(0, 40);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      EXPECT_NE(std::string(e.what()).find("file.toml:2: a key of more than 16 parts"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(parse_toml("x = " + repeated("[", 100'000), "file.toml"), Error);
  EXPECT_THROW(parse_toml("x = " + repeated("{a=", 100'000), "file.toml"), Error);
  const std::string recipe = testing::TempDir() + "deep-recipe.toml";
  std::ofstream(recipe) << "[" << a << "]\n";
  EXPECT_THROW(read_recipe_values(recipe), Error);
}

TEST(Toml, CountsDepthOutsideOfTextsAndCommentsOnly) {
  const std::string dots = repeated(".", 100), open = repeated("[", 100);
  for (const std::string& text : std::initializer_list<std::string>{
           "x = \"" + dots + open + "\"\n", "x = '" + dots + "\\" + "'\n", "# " + dots + open + "\nx = 1\n",
           "x = \"\"\"\n" + dots + "\n\\\"\"\" " + open + "\"\"\"\n", "x = '''\n'" + dots + "'\n'''\n",
           "x = [" + repeated("1.5, ", 100) + "]\n", "\"" + dots + "\" = 1\n", "a.b.c.d.e = 1\n",
           "x = \"\\\"" + dots + "\"\n"})
    EXPECT_NO_THROW(parse_toml(text, "file.toml")) << text;
}

}  // namespace
}  // namespace tern
