#include "apps/outputs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "apps/hf_output.h"
#include "apps/options.h"
#include "base/error.h"
#include "base/io.h"
#include "base/text.h"

namespace tern {
namespace {

class Outputs : public testing::Test {
 protected:
  Outputs() {
    std::string pattern = testing::TempDir() + "tern-outputs-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    for (const char* name : {"a", "b", "m/config.json", "m/notes.txt"}) {
      std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
      write_file_atomically(real_io(), path(name), "as it was");
    }
    std::filesystem::create_symlink(path("a"), path("link-to-a"));
  }
  ~Outputs() override { remove_all(real_io(), folder_); }
  std::string path(const std::string& name) const { return join_path(folder_, name); }

  // @ stands for the folder: "plan-calibrate @/a --hardware h100 --output @/a". "" if nothing is refused.
  std::string refusal(const std::string& line) const {
    const std::string typed = replace_all(line, "@", folder_);
    std::vector<std::string> words;
    for (const std::string_view w : split_words(typed)) words.emplace_back(w);
    const std::string verb = words.front();
    words.erase(words.begin());
    try {
      refuse_overwrites(resolve_options(tern_options(), verb, words, {}));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
      return e.what();
    }
    return "";
  }
  std::string folder_;
};

TEST_F(Outputs, WhatIsReadIsNotWrittenWhateverItIsCalled) {
  for (const char* line :
       {"plan-calibrate @/a --hardware h100 --output @/a", "plan-calibrate @/b --hardware @/a --output @/a",
        "plan-calibrate @/b --hardware @/a --output @/link-to-a", "plan-calibrate @/b --hardware @/a --output @/m/../a",
        "plan gpt2 --hardware @/a --output @/a", "plan gpt2 --hardware h100 --calibration @/a --html @/a",
        "plan gpt2 --hardware h100 --check @/a --picture @/a",
        "plan @/m/config.json --hardware h100 --output @/m/config.json",
        "plan @/m --hardware h100 --output @/m/config.json",
        "plan @/m --hardware h100 --inference --emit vllm --emit-output @/m/config.json",
        "profile --import @/a --import @/b --output @/b", "tokenize @/m --input @/a --output @/a",
        "eval @/m --data @/a --output @/a", "train @/m --data @/a --trace @/a"})
    EXPECT_NE(refusal(line).find("is the file that is read"), std::string::npos) << line << "\n" << refusal(line);
}

TEST_F(Outputs, OneFileForTwoThingsIsRefused) {
  const std::string plan = "plan gpt2 --hardware h100 --output @/new.json ";
  for (const char* other : {"--html @/new.json", "--html @/m/../new.json", "--emit-output @/./new.json"})
    EXPECT_NE(refusal(plan + other).find("name the same file"), std::string::npos) << other;
  EXPECT_EQ(refusal(plan + "--html @/new.html"), "");
}

TEST_F(Outputs, APictureIsAnSvgAndIsNotCalledOtherwise) {
  for (const char* line : {"plan gpt2 --hardware h100 --picture @/new.png", "bench --output @/roofline.PDF"})
    EXPECT_NE(refusal(line).find("is an SVG"), std::string::npos) << line;
  EXPECT_EQ(refusal("bench --output @/roofline.svg"), "");
}

TEST_F(Outputs, OtherFilesMayBeReplaced) {
  for (const char* line : {"plan @/m --hardware @/a --output @/b", "plan @/m --hardware h100 --output @/m/notes.txt",
                           "plan @/m --hardware h100 --output @/m/plan.json", "train @/m --data @/a --output @/m",
                           "profile --import - --output @/a", "compare @/a @/b --output @/c.html"})
    EXPECT_EQ(refusal(line), "") << line;
}

TEST_F(Outputs, ADirectoryIsNotCalledAsAFileOfAModelIs) {
  try {
    check_hf_output("new.gguf");
    FAIL() << "taken";
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find("a directory is written here"), std::string::npos); }
  check_hf_output(folder_ + "/new");
}

}  // namespace
}  // namespace tern
