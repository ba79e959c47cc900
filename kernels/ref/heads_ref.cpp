#include "kernels/ref/heads_ref.h"

#include <cstddef>

namespace tern {

namespace {

size_t place(const HeadPieces& p, int64_t row, int64_t head, int64_t i) {
  return static_cast<size_t>(row * p.stride + p.at + head * p.step + i);
}

template <class F>
void for_elements(const HeadShape& s, F f) {
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.width; ++i) f(r, h, i);
}

}  // namespace

void copy_heads_ref(HeadShape s, std::span<const double> from, HeadPieces a, std::span<double> to, HeadPieces b) {
  for_elements(s, [&](int64_t r, int64_t h, int64_t i) { to[place(b, r, h, i)] = from[place(a, r, h, i)]; });
}

void zero_heads_ref(HeadShape s, std::span<double> to, HeadPieces b) {
  for_elements(s, [&](int64_t r, int64_t h, int64_t i) { to[place(b, r, h, i)] = 0; });
}

void sum_heads_ref(HeadShape s, std::span<const double> from, HeadPieces a, std::span<double> to, HeadPieces b) {
  for_elements(s, [&](int64_t r, int64_t h, int64_t i) {
    if (h == 0) to[place(b, r, 0, i)] = 0;
    to[place(b, r, 0, i)] += from[place(a, r, h, i)];
  });
}

}  // namespace tern
