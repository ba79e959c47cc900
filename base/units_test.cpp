#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tern {
namespace {

TEST(Units, FormatReadsWell) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1536 * 1024), "1.50 MiB");
  EXPECT_EQ(format_bytes(int64_t{2} << 30), "2.00 GiB");
  EXPECT_EQ(format_bytes(int64_t{1000} << 20), "0.98 GiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(0.5), "0.5");
  EXPECT_EQ(format_count(1234), "1.2k");
  EXPECT_EQ(format_count(999'600), "1.0M");
  EXPECT_EQ(format_count(10.3e6), "10.3M");
  EXPECT_EQ(format_count(7e9), "7.0B");
  EXPECT_EQ(format_seconds(0.085), "85 ms");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(245), "4m05s");
  EXPECT_EQ(format_seconds(59.97), "1m00s");
  EXPECT_EQ(format_seconds(3 * 3600 + 120), "3h02m");
  EXPECT_EQ(format_seconds(2 * 86400 + 3 * 3600), "2d03h");
  EXPECT_EQ(format_with_commas(1234567), "1,234,567");
  EXPECT_EQ(format_with_commas(-123), "-123");
  EXPECT_EQ(format_with_commas(-1234), "-1,234");
}

TEST(Units, ParseTakesWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("1048576", "x"), 1048576);
  EXPECT_EQ(parse_bytes("2GiB", "x"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("2 gib", "x"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("2G", "x"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("1.5MB", "x"), 1'500'000);
  EXPECT_EQ(parse_bytes("500 kB", "x"), 500'000);
  EXPECT_EQ(parse_bytes("7b", "x"), 7);
  EXPECT_DOUBLE_EQ(parse_seconds("90", "x"), 90);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5h", "x"), 5400);
  EXPECT_DOUBLE_EQ(parse_seconds("250ms", "x"), 0.25);
  EXPECT_EQ(parse_integer("-12", "x"), -12);
  EXPECT_EQ(parse_integer("1_000_000", "x"), 1000000);
  for (const auto& [text, want] :
       {std::pair{"2e12", 2e12}, {"300B", 3e11}, {"1.5t", 1.5e12}, {"7 M", 7e6}, {"40k", 4e4}})
    EXPECT_DOUBLE_EQ(parse_count(text, "x"), want) << text;
  for (const char* text : {"", "B", "3 BB", "2x", "nan", "inf", "1e999", "3GiB"})
    EXPECT_THROW(parse_count(text, "--tokens"), Error) << text;
  EXPECT_DOUBLE_EQ(parse_real("3e-4", "x"), 3e-4);
}

TEST(Units, ParseRefusesTheRestAndNamesThePlace) {
  for (const char* text : {"", "GiB", "2XB", "-1", "1.5", "1e3", "inf", "5EiB", "99999999999TiB", "2Gibs"})
    EXPECT_THROW(parse_bytes(text, "--memory"), Error) << text;
  for (const char* text : {"", "s", "10x", "-5s", "nan", "1h30m"})
    EXPECT_THROW(parse_seconds(text, "--max-seconds"), Error) << text;
  for (const char* text : {"", "1.5", "12x", "0x10", "1e3", "9223372036854775808", "_1", "1__0", "+5"})
    EXPECT_THROW(parse_integer(text, "--steps"), Error) << text;
  for (const auto& [text, hint] : {std::pair{"8k", true}, {"1e9", true}, {"2.5", false}, {"many", false}}) try {
      parse_integer(text, "--seq");
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(std::string_view(e.what()).find("write its digits") != std::string_view::npos, hint) << e.what();
    }
  for (const char* text : {"", "nan", "inf", "1.5x", "1,5"}) EXPECT_THROW(parse_real(text, "--clip"), Error) << text;
  try {
    parse_bytes("many", "--memory");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--memory: 'many' is no size; write for example 2GiB, 500MB or 1048576");
  }
}

TEST(Units, OneIsSingular) {
  EXPECT_EQ(counted(1, "document"), "1 document");
  EXPECT_EQ(counted(0, "document"), "0 documents");
  EXPECT_EQ(counted(1200, "token"), "1,200 tokens");
}

}  // namespace
}  // namespace tern
