#include "planner/instance/row_front_impl.h"

#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tern {
namespace {

constexpr int kSide = RowFront::kSide;
constexpr int64_t kEmpty = std::numeric_limits<int64_t>::max();
using Eight = int64_t __attribute__((vector_size(kSide * sizeof(int64_t))));

// The first (from the back) of `blocks` blocks in which a row is nowhere larger than `row` (Not: nowhere smaller);
// blocks: none.
template <bool Larger>
[[gnu::always_inline]] inline size_t scan(const int64_t* block, size_t blocks, int numbers, const int64_t* row) {
  for (size_t left = blocks; left-- > 0;) {
    const int64_t* x = block + left * static_cast<size_t>(numbers) * kSide;
    Eight all = ~Eight{};
    for (int n = 0; n < numbers; ++n) {
      Eight kept;
      std::memcpy(&kept, x + n * kSide, sizeof(kept));
      const Eight given = Eight{} + row[n];
      all &= Larger ? kept >= given : kept <= given;
    }
    // A place without a row is larger than any: not to be taken for one.
    if (Larger) {
      Eight first;
      std::memcpy(&first, x, sizeof(first));
      all &= first != kEmpty;
    }
    int64_t any = 0;
    for (int i = 0; i < kSide; ++i) any |= all[i];
    if (any) return left;
  }
  return blocks;
}

using Scan = size_t (*)(const int64_t*, size_t, int, const int64_t*);
template <bool Larger>
size_t scan_plain(const int64_t* block, size_t blocks, int numbers, const int64_t* row) {
  return scan<Larger>(block, blocks, numbers, row);
}
#if defined(__x86_64__)
template <bool Larger>
__attribute__((target("avx2"))) size_t scan_avx2(const int64_t* block, size_t blocks, int numbers, const int64_t* row) {
  return scan<Larger>(block, blocks, numbers, row);
}
// A mask of rows in one word: a block is left as soon as none is left in it.
template <bool Larger>
__attribute__((target("avx512f"))) size_t scan_avx512(const int64_t* block, size_t blocks, int numbers,
                                                      const int64_t* row) {
  for (size_t left = blocks; left-- > 0;) {
    const int64_t* x = block + left * static_cast<size_t>(numbers) * kSide;
    __mmask8 all = Larger ? _mm512_cmpneq_epi64_mask(_mm512_loadu_si512(x), _mm512_set1_epi64(kEmpty)) : 0xff;
    for (int n = 0; n < numbers && all != 0; ++n) {
      const __m512i kept = _mm512_loadu_si512(x + n * kSide), given = _mm512_set1_epi64(row[n]);
      all = Larger ? _mm512_mask_cmpge_epi64_mask(all, kept, given) : _mm512_mask_cmple_epi64_mask(all, kept, given);
    }
    if (all != 0) return left;
  }
  return blocks;
}
template <bool Larger>
Scan pick() {
  if (__builtin_cpu_supports("avx512f")) return scan_avx512<Larger>;
  return __builtin_cpu_supports("avx2") ? scan_avx2<Larger> : scan_plain<Larger>;
}
#else
template <bool Larger>
Scan pick() {
  return scan_plain<Larger>;
}
#endif

const Scan kNotLarger = pick<false>(), kNotSmaller = pick<true>();

}  // namespace

bool RowFront::covers(const int64_t* row) const {
  const size_t width = static_cast<size_t>(numbers_) * kSide, blocks = blocks_.size() / width;
  if (blocks == 0) return false;
  compared_ += kSide;
  if (kNotLarger(blocks_.data() + first_ * width, 1, numbers_, row) == 0) return true;
  const size_t at = kNotLarger(blocks_.data(), blocks, numbers_, row);
  compared_ += kSide * static_cast<int64_t>(at < blocks ? blocks - at : blocks);
  if (at == blocks) return false;
  first_ = at;
  return true;
}

bool RowFront::has_worse(const int64_t* row) const {
  const size_t blocks = blocks_.size() / (static_cast<size_t>(numbers_) * kSide);
  return kNotSmaller(blocks_.data(), blocks, numbers_, row) < blocks;
}

void RowFront::push(const int64_t* row) {
  const int place = size_ % kSide;
  if (place == 0) blocks_.resize(blocks_.size() + static_cast<size_t>(numbers_) * kSide, kEmpty);
  int64_t* last = blocks_.data() + blocks_.size() - static_cast<size_t>(numbers_) * kSide;
  for (int n = 0; n < numbers_; ++n) last[n * kSide + place] = row[n];
  ++size_;
}

}  // namespace tern
