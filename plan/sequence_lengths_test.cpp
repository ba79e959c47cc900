#include "plan/sequence_lengths.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace tern {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_sequence_lengths(text, "l.csv");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "";
}

TEST(SequenceLengths, LinesAndHistogramsOfTheSameDataAreTheSame) {
  const SequenceLengths lines = parse_sequence_lengths("7\n\n 3\r\n7\n1", "a");
  EXPECT_EQ(lines.rows, (std::vector<LengthCount>{{1, 1}, {3, 1}, {7, 2}}));
  EXPECT_EQ(lines.sequences, 4);
  EXPECT_EQ(lines.tokens, 18);
  EXPECT_EQ(lines.longest(), 7);
  const SequenceLengths table = parse_sequence_lengths("\nlength,count\n7,1\n1 , 1\n3,1\n5,0\n7,1\n", "b");
  EXPECT_EQ(table.rows, lines.rows);
  EXPECT_EQ(table.crc(), lines.crc());
  EXPECT_NE(parse_sequence_lengths("7,2\n3,2", "c").crc(), lines.crc());
}

TEST(SequenceLengths, AQuantileIsTheLeastLengthThatSoManyDoNotExceed) {
  const SequenceLengths l = parse_sequence_lengths("10,98\n20,1\n500,1", "a");
  EXPECT_EQ(l.quantile(0.5), 10);
  EXPECT_EQ(l.quantile(0.98), 10);
  EXPECT_EQ(l.quantile(0.981), 20);
  EXPECT_EQ(l.quantile(0.99), 20);
  EXPECT_EQ(l.quantile(1), 500);
  EXPECT_DOUBLE_EQ(l.mean(), 15);
}

TEST(SequenceLengths, WhatIsWrongNamesItsLine) {
  for (const auto& [text, words] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"length\n5\nlength\n", "l.csv:3: 'length' is no length"},
           {"5\n0\n", "l.csv:2: length 0, expected 1 to 2147483647"},
           {"-5", "l.csv:1: length -5, expected 1"},
           {"5\n\n2147483648", "l.csv:3: length 2147483648, expected"},
           {"99999999999999999999", "l.csv:1: length 99999999999999999999, expected"},
           {"5.5", "l.csv:1: '5.5' is no length"},
           {"5,", "l.csv:1: '' is no count"},
           {"5,-1", "l.csv:1: count -1, expected 0"},
           {"5,1,1", "l.csv:1: '1,1' is no count"},
           {"5,9007199254740993", "l.csv:1: count 9007199254740993, expected"},
           {"2147483647,2147483649\n2147483647,9", "l.csv:2: more than 4611686018427387904 tokens"},
           {"", "l.csv: no length in it"},
           {"length,count\n5,0\n", "l.csv: no length in it"}})
    EXPECT_EQ(error_of(text).substr(0, words.size()), words) << text;
}

TEST(SequenceLengths, SizeIsBounded) {
  std::string many;
  for (int i = 1; i <= (1 << 20) + 1; ++i) many += std::to_string(i) + "\n";
  EXPECT_NE(error_of(many).find("l.csv:1048577: more than 1048576 different lengths"), std::string::npos);
  EXPECT_NE(error_of(std::string((size_t{64} << 20) + 1, '\n')).find("at most 67108864 are read"), std::string::npos);
}

// Whatever bytes: lengths that hold together, or an error that names the place.
TEST(SequenceLengths, MutatedFilesAreLengthsOrErrors) {
  const std::string base = "length,count\n128,40\n1024,3\r\n\n77\n4096 , 2\n";
  const uint64_t seed = 20261122;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  int errors = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = base;
    for (uint64_t n = random() % 4 + 1; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 5);
          break;
        case 2:
          text.insert(at, 1, "0129,\n -.e"[random() % 10]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 12));
          break;
      }
      if (text.empty()) text = "1";
    }
    try {
      const SequenceLengths l = parse_sequence_lengths(text, "l.csv");
      int64_t sequences = 0, tokens = 0, last = 0;
      for (const LengthCount& r : l.rows) {
        ASSERT_GT(r.length, last);
        ASSERT_GE(r.count, 1);
        last = r.length, sequences += r.count, tokens += r.length * r.count;
      }
      ASSERT_EQ(sequences, l.sequences) << "seed " << seed;
      ASSERT_EQ(tokens, l.tokens);
    } catch (const Error& e) {
      ++errors;
      ASSERT_EQ(e.kind(), ErrorKind::bad_file);
      ASSERT_EQ(std::string_view(e.what()).substr(0, 6), "l.csv:") << e.what();
    }
  }
  EXPECT_GT(errors, 1000);
  EXPECT_LT(errors, 19000);
}

}  // namespace
}  // namespace tern
