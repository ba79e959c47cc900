#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace tern {
namespace {

// RFC 3720 B.4: 32 bytes each.
TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  std::string bytes(32, '\0');
  EXPECT_EQ(crc32c(bytes), 0x8A9136AAu);
  bytes.assign(32, '\xff');
  EXPECT_EQ(crc32c(bytes), 0x62A8AB43u);
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(bytes), 0x46DD794Eu);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Crc32c, InstructionAndTableAgreeOnEveryLengthAndOffset) {
  std::string bytes(300, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(random_u64({1, 2}, i));
  const auto data = std::as_bytes(std::span(std::string_view(bytes)));
  for (size_t offset = 0; offset < 9; ++offset)
    for (size_t n = 0; offset + n <= bytes.size(); ++n) {
      const auto part = data.subspan(offset, n);
      ASSERT_EQ(crc32c(part, 77), crc32c_ref(part, 77)) << offset << " " << n;
      ASSERT_EQ(crc32c(part.subspan(n / 3), crc32c(part.first(n / 3))), crc32c_ref(part)) << "in two parts";
    }
}

}  // namespace
}  // namespace tern
