#include "apps/read_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "formats/tokenizer/bpe_train.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

// What does not fit is refused with these words; "" if nothing is refused.
std::string words_of_refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::does_not_fit);
    return e.what();
  }
  return "";
}

TEST(ReadText, WhatThereIsNoRoomForIsRefusedBeforeItIsRead) {
  const std::string folder = testing::TempDir() + "read_text";
  make_dirs(real_io(), folder);
  const std::string path = folder + "/long.txt";
  const std::string text(size_t{3} << 20, 'a');
  write_file_atomically(real_io(), path, text);
  EXPECT_EQ(read_text(path), text);
  EXPECT_EQ(read_text(path, {.bytes = int64_t{6} << 20, .per_byte = 2}), text);
  const std::string refused =
      words_of_refusal([&] { read_text(path, {.bytes = (int64_t{6} << 20) - 1, .per_byte = 2}); });
  EXPECT_NE(refused.find("long.txt: a document of 3.00 MiB, which takes up to 6.00 MiB"), std::string::npos) << refused;
  std::filesystem::resize_file(path, uintmax_t{1} << 33);
  EXPECT_NE(words_of_refusal([&] { read_text(path, {.bytes = int64_t{1} << 30}); }), "");
  write_file_atomically(real_io(), path, std::string_view(text).substr(0, size_t{1} << 20));
  EXPECT_EQ(read_text(path, {.bytes = 0}).size(), size_t{1} << 20) << "every run has room for so much";
  remove_all(real_io(), folder);
}

TEST(ReadText, BytesThatAreNoUtf8CountAsTheThreeThatTheyBecome) {
  const std::string folder = testing::TempDir() + "read_broken_text";
  make_dirs(real_io(), folder);
  const std::string path = folder + "/broken.txt", text(size_t{2} << 20, '\xFF');
  write_file_atomically(real_io(), path, text);
  EXPECT_EQ(read_text(path, {.bytes = int64_t{12} << 20, .per_byte = 2}), text);
  const std::string refused =
      words_of_refusal([&] { read_text(path, {.bytes = (int64_t{12} << 20) - 1, .per_byte = 2}); });
  EXPECT_NE(refused.find("broken.txt: a document of 6.00 MiB, which takes up to 12.0 MiB"), std::string::npos)
      << refused;
  // Of a text with which more is done than it is encoded, less than a mebibyte is read whatever the memory is.
  write_file_atomically(real_io(), path, std::string(size_t{1} << 20, 'a'));
  EXPECT_EQ(words_of_refusal([&] { read_text(path, {.bytes = 0, .per_byte = 41}); }), "");
  EXPECT_NE(words_of_refusal([&] { read_text(path, {.bytes = 0, .per_byte = 241}); }), "");
  remove_all(real_io(), folder);
}

TEST(ReadText, LinesCountBesideTheirBytes) {
  const std::string lines(100'000, '\n');
  EXPECT_EQ(words_of_refusal([&] { require_lines_fit(lines, 50, {.bytes = 5'200'050, .per_byte = 2}, "lines"); }), "");
  EXPECT_NE(words_of_refusal([&] { require_lines_fit(lines, 50, {.bytes = 5'200'049, .per_byte = 2}, "lines"); }), "");
  EXPECT_EQ(words_of_refusal([&] { require_lines_fit("a\nb", 50, {.bytes = 0}, "lines"); }), "");
}

TEST(ReadText, TokensOfALongTextTakeNoMoreThanTheyMay) {
  bool more = true;
  const Tokenizer tokenizer = train_bpe(
      [&](std::string_view& text) {
        text = "some words";
        return std::exchange(more, false);
      },
      {.vocab_size = 257});
  std::string words;
  while (words.size() < size_t{3} << 20) words += "some words ";
  bool whole = false;
  const auto encode = [&](std::string_view text, size_t most, int64_t room) {
    return words_of_refusal([&] { encode_at_most(tokenizer, text, most, whole, room, "words"); });
  };
  EXPECT_EQ(encode(words, SIZE_MAX, int64_t{36} << 20), "");  // a byte a token, twelve bytes each while they grow
  EXPECT_TRUE(whole);
  EXPECT_NE(encode(words, SIZE_MAX, int64_t{20} << 20).find("words: a document of 3.00 MiB"), std::string::npos);
  EXPECT_EQ(encode(words, 1000, 0), "") << "no more is encoded than is asked for";
  EXPECT_FALSE(whole);
  const std::string solid(size_t{2} << 20, 'x');  // cannot be parted
  EXPECT_NE(encode(solid, 1000, (int64_t{80} << 20) - 1).find("up to 80.0 MiB"), std::string::npos);
  EXPECT_EQ(encode(solid, 1000, int64_t{80} << 20), "");
}

}  // namespace
}  // namespace tern
