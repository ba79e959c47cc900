#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "base/bug.h"
#include "base/error.h"

namespace tern {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "f.json", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_file);
    return error.what();
  }
  return "(no error)";
}

TEST(Json, ReadsWhatTheStandardAllows) {
  const Json json =
      parse_json(R"( {"z":1,"a":[true,false,null,-0.5e+2,"x\"\\\/\b\f\n\r\t"],"u":"\u00e9\ud83d\ude00é"} )", "f.json");
  EXPECT_EQ(json.dump(), R"({"z":1,"a":[true,false,null,-50.0,"x\"\\/\b\f\n\r\t"],"u":"é😀é"})");
  EXPECT_EQ(json.begin().key(), "z") << "order of keys is kept";
  EXPECT_EQ(parse_json("7", "f"), 7);
  EXPECT_EQ(parse_json("{}", "f").size(), 0u);
  EXPECT_EQ(parse_json("[[]]", "f").dump(), "[[]]");
}

TEST(Json, KeepsIntegersWholeAndOthersAsDoubles) {
  EXPECT_EQ(parse_json("9223372036854775807", "f").get<int64_t>(), INT64_MAX);
  EXPECT_TRUE(parse_json("5", "f").is_number_integer());
  EXPECT_EQ(parse_json("18446744073709551615", "f").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_json("-9223372036854775808", "f").get<int64_t>(), INT64_MIN);
  EXPECT_TRUE(parse_json("18446744073709551616", "f").is_number_float());
  EXPECT_TRUE(parse_json("1.0", "f").is_number_float());
  EXPECT_EQ(parse_json("1e-400", "f").get<double>(), 0.0);
}

TEST(Json, RefusesMalformedTextWithPlaceAndByte) {
  struct Case {
    std::string text, message;
  };
  const Case cases[] = {
      {"", "f.json: byte 0 (line 1, column 1): the text ends where a value should be"},
      {"{\"a\":1,\n \"a\":2}", "f.json: byte 9 (line 2, column 2): key \"a\" appears twice in one object"},
      {"{\"a\":1", "byte 6 (line 1, column 7): expected ',' or '}', found the end of the text"},
      {"{\"a\"", "expected ':' after key \"a\""},
      {"{", "this object is never closed"},
      {"{a:1}", "expected a key in quotes, found 'a'"},
      {"{\"a\":1,}", "expected a key in quotes, found '}'"},
      {"[1,]", "expected a value, found ']'"},
      {"[1 2]", "expected ',' or ']', found '2'"},
      {"1 2", "byte 2 (line 1, column 3): found '2' after the end of the JSON value"},
      {"nul", "expected a value, found 'n'"},
      {"NaN", "NaN and Infinity are not JSON"},
      {"-Infinity", "NaN and Infinity are not JSON"},
      {"01", "may not start with 0"},
      {"-", "expected a value, found '-'"},
      {"+1", "expected a value, found '+'"},
      {"1.", "digits after its point"},
      {".5", "expected a value"},
      {"1e", "digits in its exponent"},
      {"1e999", "beyond the range of a double"},
      {"\"abc", "this string is never closed"},
      {"\"a\nb\"", "control character byte 0x0a inside a string"},
      {"\"\\x\"", "unknown escape"},
      {"\"\\u12g4\"", "four hexadecimal digits"},
      {"\"\\u-123\"", "four hexadecimal digits"},
      {"\"\\ud800\"", "high surrogate without the low one"},
      {"\"\\ud800\\u0041\"", "high surrogate without the low one"},
      {"\"\\udc00\"", "low surrogate without the high one"},
      {"\"ab\xff\"", "byte 3 (line 1, column 4): this string is not valid UTF-8"},
      {"\"\xc0\xaf\"", "not valid UTF-8"},
      {"\xEF\xBB\xBF{}", "byte order mark"},
      {std::string("[1]\0", 4), "after the end of the JSON value"},
      {"{\"a\":1}//", "found '/' after the end"},
  };
  for (const Case& c : cases)
    EXPECT_NE(error_of(c.text).find(c.message), std::string::npos) << c.text << "\n  " << error_of(c.text);
}

TEST(Json, BoundsDepthSizeAndStrings) {
  EXPECT_EQ(error_of(std::string(64, '[') + std::string(64, ']')), "(no error)");
  EXPECT_NE(error_of(std::string(65, '[') + std::string(65, ']')).find("deeper than 64"), std::string::npos);
  EXPECT_NE(error_of(std::string(1'000'000, '[')).find("deeper than 64"), std::string::npos);
  EXPECT_NE(error_of("[1,2,3]", {.max_bytes = 6}).find("7 bytes of JSON, more than the 6"), std::string::npos);
  EXPECT_NE(error_of("\"abcdef\"", {.max_string_bytes = 5}).find("longer than the 5 bytes"), std::string::npos);
}

TEST(Json, ReadsAHugeObjectInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i)
    text += (i ? ",\"token" : "\"token") + std::to_string(i) + "\":" + std::to_string(i);
  text += "}";
  EXPECT_EQ(parse_json(text, "f").size(), 200'000u);  // quadratic lookups would take minutes
}

TEST(DumpJson, RefusesWhatJsonCannotHold) {
  EXPECT_EQ(dump_json({{"a", 1.5}}), R"({"a":1.5})");
  EXPECT_THROW(dump_json({{"a", {{"b", NAN}}}}), Bug);
  EXPECT_THROW(dump_json(Json::array({INFINITY})), Bug);
  EXPECT_THROW(dump_json({{"a", "\xff"}}), Bug);
}

TEST(QuoteJson, EscapesAndStaysReadable) {
  const std::string text("a\"\\\n\t\x01é\xff", 9);
  EXPECT_EQ(quote_json(text), "\"a\\\"\\\\\\n\\t\\u0001é\xEF\xBF\xBD\"");
  EXPECT_EQ(parse_json(quote_json(text), "f").get<std::string>(), "a\"\\\n\t\x01é\xEF\xBF\xBD");
}

}  // namespace
}  // namespace tern
