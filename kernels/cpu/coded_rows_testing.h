#pragma once
// Matrices of random coded rows, for tests of their products.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/decode.h"
#include "kernels/kernel_testing.h"

namespace tern {

/// Blocks whose numbers are of a usual size, a dozen different ones: random bytes may hold scales that are huge, or none.
inline std::vector<uint8_t> sane_blocks(WeightType type, int64_t rows, int64_t k, uint64_t salt) {
  constexpr size_t kDifferent = 12;
  std::mt19937_64 random(test_seed() + 17 * static_cast<uint64_t>(type) + salt);
  const auto block = static_cast<size_t>(row_of(type).block_bytes);
  std::vector<uint8_t> different(kDifferent * block), bytes(static_cast<size_t>(stored_bytes(type, rows, k)));
  std::vector<float> numbers(static_cast<size_t>(row_of(type).block_elements));
  for (size_t i = 0; i < kDifferent; ++i)
    for (bool sane = false; !sane;) {
      const std::span one = std::span(different).subspan(i * block, block);
      for (uint8_t& b : one) b = static_cast<uint8_t>(random());
      decode_blocks(type, std::as_bytes(one), numbers);
      sane = std::ranges::all_of(numbers, [](float x) { return std::abs(x) < 1e4f; });
    }
  for (size_t at = 0; at < bytes.size(); at += block)
    std::memcpy(bytes.data() + at, different.data() + random() % kDifferent * block, block);
  return bytes;
}

/// The same of a type with learned tables: rows of random bytes, each behind a scale of a usual size. Two rows may be one.
inline std::vector<uint8_t> sane_learned_rows(WeightType type, int64_t rows, int64_t k, uint64_t salt) {
  std::mt19937_64 random(test_seed() + 17 * static_cast<uint64_t>(type) + salt);
  const int64_t row_bytes = stored_bytes(type, 1, k);
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * row_bytes));
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  for (int64_t r = 0; r < rows; ++r) {
    const bf16 scale = to_bf16(static_cast<float>(random() % 1000 + 1) * 1e-4f);
    std::memcpy(bytes.data() + r * row_bytes, &scale, sizeof scale);
  }
  return bytes;
}
inline std::vector<int8_t> random_tables(WeightType type, uint64_t salt) {
  std::mt19937_64 random(test_seed() + 19 * static_cast<uint64_t>(type) + salt);
  std::vector<int8_t> tables(static_cast<size_t>(table_bytes(type)));
  for (int8_t& t : tables) t = static_cast<int8_t>(random());
  return tables;
}

/// All numbers of rows in the order of the file.
inline std::vector<float> numbers_of(CodedRows rows, int64_t k) {
  rows.head_dim = 0;
  std::vector<int32_t> ids(static_cast<size_t>(rows.count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::vector<float> numbers(ids.size() * static_cast<size_t>(k));
  gather_coded_rows<float>(rows, k, ids, numbers);
  return numbers;
}

/// A matrix of pieces: coded, and decoded in our order of rows.
struct CodedCase {
  std::vector<CodedRows> pieces;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<std::vector<int8_t>> tables;
  std::vector<float> dense;  // (n, k), decoded, our order
  int64_t n = 0, k;

  void add(WeightType type, int64_t rows, int64_t head_dim = 0) {
    const bool learned = table_bytes(type) > 0;
    tables.push_back(random_tables(type, bytes.size()));
    bytes.push_back(learned ? sane_learned_rows(type, rows, k, bytes.size())
                            : sane_blocks(type, rows, k, bytes.size()));
    const CodedRows piece{type, bytes.back().data(), rows, head_dim, learned ? tables.back().data() : nullptr};
    const std::vector<float> numbers = numbers_of(piece, k);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t from = r;
      if (head_dim > 0) {  // pairs of the file, apart by half a head here
        const int64_t in = r % head_dim, half = head_dim / 2;
        from = r - in + 2 * (in % half) + in / half;
      }
      dense.insert(dense.end(), numbers.begin() + from * k, numbers.begin() + (from + 1) * k);
    }
    pieces.push_back(piece);
    n += rows;
  }
};

}  // namespace tern
