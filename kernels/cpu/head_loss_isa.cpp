// The fused head on the tile unit, or on AVX512-BF16. Everything is computed with the vocabulary as rows, zᵀ = w·xᵀ, so that what belongs
// to a row of x (its top, its sum, its log-sum-exp) lies along the lanes of a vector and no sum goes across lanes.

#include "kernels/cpu/head_loss_table.h"
#include "kernels/cpu/tiles_impl.h"
#include "kernels/cpu/vector_math_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AVX512BF16__)

constexpr int64_t kStep32 = 32;
constexpr float kRoom = 60.0f;  // e^60 times a vocabulary's length is still finite in f32 and in bf16

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

void pack(const HeadLossTask& t, int64_t thread, int64_t threads) {
  for (int64_t r = thread * kStep32; r < t.padded_rows; r += threads * kStep32)
    pack_right_transposed(t.x + r * t.width, t.width, smaller(kStep32, t.rows - r), t.width,
                          t.x_columns + r * t.padded_width);
  for (int64_t d = thread * kStep32; d < t.padded_width; d += threads * kStep32)
    pack_right(t.x + d, t.width, smaller(kStep32, t.width - d), t.rows, t.x_rows + d * t.padded_rows);
}

/// One tile of z, 32 of the vocabulary × 32 rows, on its way to e, in slices of its rows.
struct Tile {
  const float* z;
  int64_t valid;     // of the vocabulary
  float *top, *sum;  // of the 32 rows of x
  float* tops;       // where the tops of this tile are kept
  bf16* kept;        // of the first strip; the second lies `strip` behind
  int64_t strip;
};
/// What a tile's slices hand on.
struct Fold {
  Vec top[2], sum[2], most[2];
};
inline Fold begin_fold(const Tile& t) {
  return {{load(t.top), load(t.top + 16)}, {load(t.sum), load(t.sum + 16)}, {load(t.z), load(t.z + 16)}};
}
inline void fold_slice(const Tile& t, Fold& f, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) {
    bf16* line = t.kept + (i / 16 * t.strip) + i % 16 * kTileDepth;
    if (i >= t.valid) {
      store_line(line, VecUint{});
      continue;
    }
    Vec e[2];
    for (int64_t g = 0; g < 2; ++g) {
      const Vec z = load(t.z + i * kTilePanel + g * 16);
      f.most[g] = max(z, f.most[g]);
      e[g] = exp(z - f.top[g]);
      f.sum[g] += e[g];
    }
    store_line(line, narrow_two(e[0], e[1]));
  }
}
/// Whether no z lay so far above the top that e might overflow. Else the top rises, what was summed before shrinks, and
/// the tile is made again.
inline void end_fold(const Tile& t, Fold f) {
  bool again = false;
  for (int64_t g = 0; g < 2; ++g) {
    const VecInt over = f.most[g] > f.top[g] + kRoom;
    bool any = false;
    for (int lane = 0; lane < kLanes; ++lane) any |= over[lane] != 0;
    if (!any) continue;
    again = true;
    const Vec top = select(over, f.most[g], f.top[g]), sum = load(t.sum + g * 16);
    store(t.sum + g * 16, sum * select(sum > 0.0f, exp(f.top[g] - top), splat(0.0f)));
    store(t.top + g * 16, top);
  }
  if (again) {
    f = begin_fold(t);
    fold_slice(t, f, 0, kStep32);
  }
  for (int64_t g = 0; g < 2; ++g) {
    store(t.tops + g * 16, f.top[g]);
    store(t.sum + g * 16, f.sum[g]);
  }
}

void forward(const HeadLossTask& t, const HeadLossThread& own, int64_t first, int64_t last) {
  const Tiles tiles;
  alignas(64) float z[2][kStep32 * kTilePanel];  // of the tile that is made and of the one before, which is folded
  const int64_t steps = t.padded_width / kTileDepth, panels = t.padded_rows / kStep32;
  for (int64_t r = 0; r < t.padded_rows; r += kLanes) {
    store(own.top + r, splat(-__builtin_inff()));
    store(own.sum + r, splat(0.0f));
  }
  Tile before = {};
  for (int64_t v = first, made = 0; v < last; v += kStep32) {
    const int64_t valid = smaller(kStep32, t.vocab - v);
    pack_left(t.w + v * t.width, t.width, kStep32, valid, t.width, own.strip);
    for (int64_t p = 0; p < panels; ++p, ++made) {
      const Tile now = {.z = z[made % 2],
                        .valid = valid,
                        .top = own.top + p * kStep32,
                        .sum = own.sum + p * kStep32,
                        .tops = t.tops + v / kStep32 * t.padded_rows + p * kStep32,
                        .kept = t.kept + (v / kTileRows16 * panels + p) * kTileElements,
                        .strip = panels * kTileElements};
      const bf16* b = t.x_columns + p * kStep32 * t.padded_width;
      if (made == 0) {
        tile_block<true>(own.strip, steps * kTileElements, b, steps, z[0]);
      } else {
        Fold f = begin_fold(before);
        tile_block<true>(own.strip, steps * kTileElements, b, steps, z[made % 2], kTilePanel,
                         [&](int64_t s) { fold_slice(before, f, kStep32 * s / steps, kStep32 * (s + 1) / steps); });
        end_fold(before, f);
      }
      before = now;
    }
  }
  if (!before.z) return;
  Fold f = begin_fold(before);
  fold_slice(before, f, 0, kStep32);
  end_fold(before, f);
}

/// x_r·w_target in f32; the products' order is the loss's own.
inline float target_logit(const HeadLossTask& t, int64_t r) {
  Vec dot = splat(0.0f);
  const bf16 *x = t.x + r * t.width, *w = t.w + t.targets[r] * t.width;
  for_each_lanes(t.width, [&](int64_t d, int64_t n) { dot = fma(load_some(x + d, n), load_some(w + d, n), dot); });
  return sum(dot);
}

void combine(const HeadLossTask& t, const HeadLossThread* own, int64_t threads) {
  for (int64_t r = 0; r < t.padded_rows; r += kLanes) {
    Vec top = load(own[0].top + r);
    for (int64_t i = 1; i < threads; ++i) top = max(load(own[i].top + r), top);
    Vec total = splat(0.0f);
    for (int64_t i = 0; i < threads; ++i) total += load(own[i].sum + r) * exp(load(own[i].top + r) - top);
    for (int64_t lane = 0; lane < kLanes; ++lane) t.lse[r + lane] = top[lane] + __builtin_logf(total[lane]);
  }
  for (int64_t r = 0; r < t.rows; ++r)
    t.losses[r] = t.targets[r] < 0 || t.targets[r] >= t.vocab ? 0.0f : -target_logit(t, r);
}

/// Two rows of e (of the vocabulary) become dz: as a left factor at `left`, as a right factor at `rows`.
inline void finish_pair(const bf16* low, const bf16* high, const Vec (&factor)[2], bf16* left, bf16* rows) {
  const auto widened = [](const bf16* p, int64_t g) { return load(p + g * 16); };
  const Vec l0 = widened(low, 0) * factor[0], l1 = widened(low, 1) * factor[1];
  const Vec h0 = widened(high, 0) * factor[0], h1 = widened(high, 1) * factor[1];
  store_line(left, narrow_two(l0, l1));
  store_line(left + kTileDepth, narrow_two(h0, h1));
  store_line(rows, interleave_halves(narrow_two(l0, h0)));
  store_line(rows + kTilePanel, interleave_halves(narrow_two(l1, h1)));
}

inline bf16 minus(bf16 x, float y) {
  bf16 out;
  store(&out, splat(as_float(x) - y), 1);
  return out;
}

/// dz of the block [v, v + count): factors per 32, then the targets.
void make_dz(const HeadLossTask& t, const HeadLossThread& own, int64_t v, int64_t padded) {
  const int64_t panels = t.padded_rows / kStep32;
  const bf16* kept = t.kept + v / kTileRows16 * panels * kTileElements;
  for (int64_t i = 0; i < padded; i += kStep32) {
    const float* tops = t.tops + (v + i) / kStep32 * t.padded_rows;
    for (int64_t r = 0; r < t.padded_rows; r += kLanes) {
      float lane[kLanes];
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = r + l < t.rows && t.targets[r + l] >= 0 ? t.scale : 0.0f;
      store(own.factor + r, exp(load(tops + r) - load(t.lse + r)) * load(lane));
    }
    for (int64_t p = 0; p < panels; ++p) {
      const Vec factor[2] = {load(own.factor + p * kStep32), load(own.factor + p * kStep32 + 16)};
      for (int64_t j = 0; j < kStep32; j += 2) {
        const int64_t row = i + j;
        const int64_t line = (row / 16 * panels + p) * kTileElements + row % 16 * kTileDepth;
        finish_pair(kept + line, kept + line + kTileDepth, factor, own.dz_left + line,
                    own.dz_rows + p * kStep32 * kHeadBlock + row * kTilePanel);
      }
    }
  }
  for (int64_t r = 0; r < t.rows; ++r) {
    const int64_t row = t.targets[r] - v;
    if (t.targets[r] < 0 || row < 0 || row >= padded) continue;
    const int64_t p = r / kStep32, column = r % kStep32;
    bf16* left = own.dz_left + (row / 16 * panels + p) * kTileElements + row % 16 * kTileDepth + column;
    bf16* right = own.dz_rows + p * kStep32 * kHeadBlock + row / 2 * 2 * kTilePanel + 2 * column + row % 2;
    *left = *right = minus(*left, t.scale);
  }
}

void backward(const HeadLossTask& t, const HeadLossThread& own, int64_t first, int64_t last) {
  const Tiles tiles;
  alignas(64) float c[kStep32 * kTilePanel];
  const int64_t panels = t.padded_rows / kStep32, row_steps = t.padded_rows / kTileDepth;
  for (int64_t i = 0; i < t.padded_rows * t.padded_width; i += kLanes) store(own.dx_columns + i, splat(0.0f));
  for (int64_t v = first; v < last; v += kHeadBlock) {
    const int64_t count = smaller(kHeadBlock, smaller(last, t.vocab) - v), padded = round_up(count, kStep32);
    make_dz(t, own, v, padded);
    for (int64_t i = 0; i < count; i += kStep32) {  // dw += dzᵀ·x
      const bf16* a = own.dz_left + i / kTileRows16 * row_steps * kTileElements;
      for (int64_t d = 0; d < t.width; d += kTilePanel) {
        tile_block<true>(a, row_steps * kTileElements, t.x_rows + d * t.padded_rows, row_steps, c);
        const int64_t n = smaller(kTilePanel, t.width - d);
        for (int64_t r = 0; r < smaller(kStep32, count - i); ++r) {
          float* to = t.dw + (v + i + r) * t.width + d;
          for_each_lanes(n, [&](int64_t j, int64_t m) {
            store_some(to + j, load_some(to + j, m) + load(c + r * kTilePanel + j), m);
          });
        }
      }
    }
    const int64_t steps = padded / kTileDepth;  // dxᵀ += wᵀ·dz
    pack_left_transposed(t.w + v * t.width, t.width, t.width, count, own.w_columns);
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t d = 0; d < t.padded_width; d += kStep32) {
        const bf16* a = own.w_columns + d / kTileRows16 * steps * kTileElements;
        const bf16* b = own.dz_rows + p * kStep32 * kHeadBlock;
        float* to = own.dx_columns + (p * t.padded_width + d) * kStep32;
        if (d + kTileRows16 < t.width)
          tile_block<true, true>(a, steps * kTileElements, b, steps, to);
        else
          tile_block<false, true>(a, 0, b, steps, to);
      }
  }
}

void finish(const HeadLossTask& t, const HeadLossThread* own, int64_t thread, int64_t threads) {
  for (int64_t r = thread * kStep32; r < t.rows; r += threads * kStep32)
    for (int64_t half = 0; half < kStep32; half += 16)
      for (int64_t d = 0; d < t.width; d += 16) {
        Vec v[16];
        for (int64_t i = 0; i < 16; ++i) {
          const int64_t at = r * t.padded_width + (d + i) * kStep32 + half;
          v[i] = load(own[0].dx_columns + at);
          for (int64_t k = 1; k < threads; ++k) v[i] += load(own[k].dx_columns + at);
        }
        transpose(v);
        const int64_t n = smaller(16, t.width - d);
        for (int64_t i = 0; i < 16 && r + half + i < t.rows; ++i)
          store_some(t.dx + (r + half + i) * t.width + d, v[i], n);
      }
}

}  // namespace

const HeadLossTable head_loss_table = {
    .present = true, .pack = pack, .forward = forward, .combine = combine, .backward = backward, .finish = finish};

#else

}  // namespace

const HeadLossTable head_loss_table = {};

#endif

}  // namespace tern::TERN_ISA_NAMESPACE
