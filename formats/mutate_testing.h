#pragma once
// Seeded mutations of files, for tests and for the plain runs of fuzz targets.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>

namespace tern {

/// The seed of a randomized test: TERN_TEST_SEED, or a fixed one. Print it.
inline uint64_t mutation_seed() {
  const char* text = std::getenv("TERN_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20261121;
}

/// How many mutations of each format: TERN_MUTATIONS, or ten thousand.
inline int mutation_count() {
  const char* text = std::getenv("TERN_MUTATIONS");
  return text ? std::max(1, std::atoi(text)) : 10'000;
}

/// One number of a text is another, which leaves the text as well formed as it was.
inline std::string mutate_number(std::string bytes, std::mt19937_64& random) {
  static constexpr std::string_view kNumbers[] = {"0",
                                                  "1",
                                                  "2",
                                                  "3",
                                                  "-1",
                                                  "7",
                                                  "64",
                                                  "10000",
                                                  "65536",
                                                  "1073741824",
                                                  "2147483647",
                                                  "2147483648",
                                                  "9223372036854775807",
                                                  "-9223372036854775808",
                                                  "18446744073709551615",
                                                  "0.5",
                                                  "1e30",
                                                  "1e-30"};
  constexpr std::string_view kDigits = "0123456789";
  if (bytes.empty()) return bytes;
  size_t at = bytes.find_first_of(kDigits, static_cast<size_t>(random() % bytes.size()));
  if (at == std::string::npos) at = bytes.find_first_of(kDigits);
  if (at == std::string::npos) return bytes;
  while (at > 0 && kDigits.find(bytes[at - 1]) != std::string_view::npos) --at;
  const size_t end = std::min(bytes.find_first_not_of(kDigits, at), bytes.size());
  return bytes.replace(at, end - at, kNumbers[random() % std::size(kNumbers)]);
}

/// One seeded mutation of a file: bytes flipped, dropped, doubled, swapped for telling ones, or spliced, up to four
/// times; or, one time in three, one or two numbers that are others.
inline std::string mutate(std::string bytes, std::mt19937_64& random) {
  static constexpr std::string_view kTelling[] = {"\"",        "{",
                                                  "}",         "[",
                                                  "]",         ",",
                                                  ":",         "-1",
                                                  "0",         "9223372036854775808",
                                                  "1e999",     "null",
                                                  "true",      "\\u0000",
                                                  "\xff",      "18446744073709551615",
                                                  "NaN",       " ",
                                                  "[[[[",      "{\"a\":",
                                                  "2147483647"};
  const auto below = [&](size_t n) { return n == 0 ? 0 : static_cast<size_t>(random() % n); };
  if (below(3) == 0) {
    bytes = mutate_number(std::move(bytes), random);
    return below(2) == 0 ? mutate_number(std::move(bytes), random) : bytes;
  }
  for (size_t rounds = 1 + below(4); rounds > 0; --rounds) {
    const size_t at = below(bytes.size() + 1), count = std::min(bytes.size() - at, 1 + below(16));
    switch (below(6)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes.erase(at, count);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, count));
        break;
      case 3:
        bytes.replace(at, count, kTelling[below(std::size(kTelling))]);
        break;
      case 4:
        bytes.insert(at, kTelling[below(std::size(kTelling))]);
        break;
      case 5:
        bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(64)));
        break;
    }
  }
  return bytes;
}

/// For binary files: one number among the first `header` bytes is another, or (one time in `plain`) mutate.
struct MutateNumbers {
  size_t header = 1200;
  uint64_t plain = 2;
  std::string operator()(std::string bytes, std::mt19937_64& random) const {
    if (random() % plain == 0 || bytes.size() < 16) return mutate(std::move(bytes), random);
    const size_t at = random() % std::min(bytes.size() - 8, header), size = size_t{1} << random() % 4;
    const uint64_t values[] = {0, 1, ~uint64_t{0}, uint64_t{1} << 63, 0x7fffffff, random(), 8, 9, 255, 64};
    const uint64_t value = values[random() % std::size(values)];
    std::memcpy(bytes.data() + at, &value, size);
    return bytes;
  }
};
using MutateFile = std::function<std::string(std::string, std::mt19937_64&)>;

}  // namespace tern
