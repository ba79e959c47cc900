#include "base/exact_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tern {
namespace {

TEST(ExactJson, KeepsWhatSixtyFourBitsHold) {
  const std::string text =
      R"({"a": [-9223372036854775808, 18446744073709551615, 1e30, 123456789012345678901234.5], "99999999999999999999": "\"99999999999999999999\\", "b": true})";
  EXPECT_EQ(parse_exact_json(text, "t"), parse_json(text, "t"));
  EXPECT_EQ(parse_exact_json("18446744073709551615", "t").get<uint64_t>(), UINT64_MAX);
}

TEST(ExactJson, RefusesWhatWouldBeRounded) {
  for (const std::string number : {"18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"})
    for (const std::string& text : {number, "[1, " + number + "]", "{\"a\": \"\\\"\", \"b\":" + number + "}"}) {
      EXPECT_NO_THROW(parse_json(text, "t"));
      try {
        parse_exact_json(text, "t");
        FAIL() << text;
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::bad_file);
        EXPECT_NE(std::string(e.what()).find("t: byte " + std::to_string(text.find(number)) + ": " + number),
                  std::string::npos)
            << e.what();
      }
    }
  EXPECT_THROW(parse_exact_json("[1", "t"), Error);
}

}  // namespace
}  // namespace tern
