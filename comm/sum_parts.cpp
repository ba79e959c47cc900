#include "comm/sum_parts.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "spec/sum_order.h"

namespace tern {
namespace {

template <class T>
void add_to(T* __restrict left, const T* __restrict right, int64_t count) {
  for (int64_t i = 0; i < count; ++i) left[i] = static_cast<T>(left[i] + right[i]);
}

template <class T>
void sum_in_place(std::span<std::byte* const> leaves, size_t own, int64_t count) {
  constexpr int64_t kBlock = 4096;  // elements: a block of every leaf stays in the cache from level to level
  const std::vector<TreePair> pairs = tree_pairs(static_cast<int>(leaves.size()));
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const auto at = [&](int leaf) { return reinterpret_cast<T*>(leaves[static_cast<size_t>(leaf)]) + begin; };
    for (const TreePair& p : pairs) add_to(at(p.left), at(p.right), length);
    if (own != 0) std::copy_n(at(0), length, at(static_cast<int>(own)));
  }
}

bf16 rounded(float x, bf16) { return to_bf16(x); }
f16 rounded(float x, f16) { return to_f16(x); }

template <class T>
void sum_widened(std::span<std::byte* const> leaves, size_t own, int64_t count) {
  constexpr int64_t kBlock = 1024;
  const std::vector<TreePair> pairs = tree_pairs(static_cast<int>(leaves.size()));
  std::vector<float> wide(leaves.size() * kBlock);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf)
      for (int64_t i = 0; i < length; ++i)
        wide[leaf * kBlock + static_cast<size_t>(i)] = to_float(reinterpret_cast<const T*>(leaves[leaf])[begin + i]);
    for (const TreePair& p : pairs) add_to(&wide[p.left * kBlock], &wide[p.right * kBlock], length);
    T* sum = reinterpret_cast<T*>(leaves[own]) + begin;
    for (int64_t i = 0; i < length; ++i) sum[i] = rounded(wide[static_cast<size_t>(i)], T{});
  }
}

}  // namespace

void sum_parts(DType dtype, std::span<std::byte* const> leaves, size_t own, int64_t count) {
  switch (dtype) {
    case DType::f64:
      return sum_in_place<double>(leaves, own, count);
    case DType::f32:
      return sum_in_place<float>(leaves, own, count);
    case DType::bf16:
      return sum_widened<bf16>(leaves, own, count);
    case DType::f16:
      return sum_widened<f16>(leaves, own, count);
    case DType::i64:  // unsigned: what does not fit wraps
      return sum_in_place<uint64_t>(leaves, own, count);
    case DType::i32:
      return sum_in_place<uint32_t>(leaves, own, count);
    case DType::i16:
    case DType::u16:
      return sum_in_place<uint16_t>(leaves, own, count);
    case DType::i8:
    case DType::u8:
      return sum_in_place<uint8_t>(leaves, own, count);
    case DType::boolean:
      break;
  }
  throw Error(ErrorKind::usage, "a sum of {} over ranks; convert to an integer type first", name_of(dtype));
}

}  // namespace tern
