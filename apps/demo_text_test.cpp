#include "apps/demo_text.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/memory_io.h"

namespace tern {
namespace {

constexpr const char* kFortunes = "/usr/share/games/fortunes";

TEST(Overstrikes, LeaveTheLaterSign) {
  EXPECT_EQ(without_overstrikes("This is the ____\b\b\b\bLAST time"), "This is the LAST time");
  EXPECT_EQ(without_overstrikes("_\bI and *___\b\b\bcan*"), "I and *can*");
  EXPECT_EQ(without_overstrikes("é\bx"), "x");
  EXPECT_EQ(without_overstrikes("a\n\b\bb"), "a\nb");
  EXPECT_EQ(without_overstrikes("\bb"), "b");
  EXPECT_EQ(without_overstrikes("plain ünïcode"), "plain ünïcode");
}

std::string numbered(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i ? "%\n" : "") + std::string("fortune ") + std::to_string(i) + "\nsecond line\n";
  return text;
}

TEST(HoldOut, TakesEveryTwentiethFortuneAndLosesNothing) {
  const HeldOut split = hold_out(numbered(400));
  EXPECT_EQ(split.repeated, 0);
  EXPECT_EQ(split.held_out.substr(0, 43), "fortune 19\nsecond line\n%\nfortune 39\nsecond ");
  EXPECT_EQ(split.held_out.find("fortune 18\n"), std::string::npos);
  EXPECT_EQ(split.train.find("fortune 19\n"), std::string::npos);
  // One separator fewer than in the whole: where the two parts would meet.
  EXPECT_EQ(split.train.size() + split.held_out.size() + 2, numbered(400).size());
}

TEST(HoldOut, LeavesOutWhatStandsAmongTheTrainedToo) {
  const HeldOut split = hold_out(numbered(399) + "%\nfortune 5\nsecond line\n");  // the 400th repeats the sixth
  EXPECT_EQ(split.repeated, 1);
  EXPECT_EQ(split.held_out.find("fortune 5\n"), std::string::npos);
  EXPECT_NE(split.held_out.find("fortune 379\n"), std::string::npos);
}

TEST(HoldOut, CutsAnyOtherTextAtALine) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  const HeldOut split = hold_out(text);
  EXPECT_EQ(split.train + split.held_out, text);
  EXPECT_EQ(split.train.back(), '\n');
  EXPECT_NEAR(static_cast<double>(split.held_out.size()) / static_cast<double>(text.size()), 0.05, 0.001);

  std::string one_line(4001, 'x');
  for (size_t i = 0; i + 1 < one_line.size(); i += 2) one_line.replace(i, 2, "é");
  const HeldOut cut = hold_out(one_line);
  EXPECT_EQ(cut.train + cut.held_out, one_line);
  EXPECT_NE(static_cast<unsigned char>(cut.held_out[0]) & 0xC0, 0x80);
}

TEST(DemoText, OfFortunesIsWhatTheMeasuredFigureStandsFor) {
  if (!std::filesystem::exists(kFortunes)) GTEST_SKIP() << "the package fortunes is not installed";
  const DemoText text = fortunes_text(real_io(), kFortunes);
  EXPECT_EQ(text.text.find('\b'), std::string::npos);
  EXPECT_EQ(text.overstrikes, 311);
  EXPECT_EQ(text.text.size(), 2576052u);  // `xz -9e` makes 827,744 bytes of these: 2.571 bits per byte
  const HeldOut split = hold_out(text.text);
  EXPECT_GT(split.repeated, 0);
  EXPECT_NEAR(static_cast<double>(split.held_out.size()), 124000, 1000);
}

TEST(DemoText, SaysWhereTextComesFromWhenItIsMissing) {
  MemoryIo io;
  const auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  EXPECT_NE(message([&] { fortunes_text(io, "/nowhere"); }).find("apt-get install fortunes"), std::string::npos);
  io.make_dir("/d");
  io.create("/d/short")->append(std::string_view("too little\n"));
  io.create("/d/broken")->append(std::string_view("\xFF\xFE\n"));
  EXPECT_NE(message([&] { file_text(io, "/d/short"); }).find("expected at least 200000"), std::string::npos);
  EXPECT_NE(message([&] { file_text(io, "/d/broken"); }).find("not UTF-8"), std::string::npos);
  EXPECT_NE(message([&] { fortunes_text(io, "/d"); }).find("/d/broken: is not UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace tern
