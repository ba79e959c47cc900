#include "base/crc32c_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/rng.h"

namespace tern {
namespace {

std::string drawn_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(random_u64({5, 6}, i));
  return bytes;
}

uint32_t share_of(const std::string& file, size_t begin, size_t end) {
  const auto all = std::as_bytes(std::span(std::string_view(file)));
  return crc32c_share(all.subspan(begin, end - begin), static_cast<int64_t>(file.size() - end));
}

TEST(Crc32cShares, AnyTwoPartsGiveTheChecksumOfTheWhole) {
  for (const size_t count : {0, 1, 2, 7, 8, 9, 255, 256, 300, 1027}) {
    const std::string file = drawn_bytes(count);
    for (size_t cut = 0; cut <= count; ++cut) {
      const uint32_t shares = share_of(file, 0, cut) ^ share_of(file, cut, count);
      ASSERT_EQ(crc32c_of_shares(shares, static_cast<int64_t>(count)), crc32c(file)) << cut << " of " << count;
    }
  }
}

TEST(Crc32cShares, ManyPartsInAnyOrderAndAMissingOneShows) {
  const std::string file = drawn_bytes(100'003);
  std::vector<uint32_t> shares;
  for (size_t begin = 0, n = 0; begin < file.size(); ++n) {
    const size_t end = std::min(file.size(), begin + random_u64({7, 8}, n) % 997);  // some are empty
    shares.push_back(share_of(file, begin, end));
    begin = end;
  }
  std::ranges::reverse(shares);
  uint32_t all = 0;
  for (const uint32_t share : shares) all ^= share;
  const auto bytes = static_cast<int64_t>(file.size());
  EXPECT_EQ(crc32c_of_shares(all, bytes), crc32c(file));
  EXPECT_NE(crc32c_of_shares(all ^ shares.back(), bytes), crc32c(file));
  EXPECT_NE(crc32c_of_shares(all, bytes + 1), crc32c(file));
}

TEST(Crc32cShares, ManyZerosBehindAPart) {
  const std::string part = drawn_bytes(1000), zeros(1 << 20, '\0');
  const auto bytes = std::as_bytes(std::span(std::string_view(part)));
  uint32_t want = crc32c(part);
  for (int64_t after = 1 << 20; after <= int64_t{33} << 20; after += 1 << 20) {
    want = crc32c(zeros, want);
    ASSERT_EQ(crc32c_of_shares(crc32c_share(bytes, after), after + 1000), want) << after;
  }
}

}  // namespace
}  // namespace tern
