#include "kernels/cpu/attention.h"

#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/region_errors.h"
#include "base/rounding.h"
#include "kernels/cpu/attention_onto.h"
#include "kernels/cpu/attention_table.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

template <class T>
const AttentionKernels<T>& active() {
  const AttentionTable& table = TERN_TABLE_OF(attention_table, active_isa());
  if constexpr (std::is_same_v<T, float>)
    return table.f32;
  else
    return table.bfloat16;
}

constexpr int64_t kTasksOfThread = 4;  // as many at least are dealt out evenly enough

int64_t tile_positions(const AttentionShape& shape) {
  return std::max<int64_t>(1, kTileRows / (shape.heads / shape.kv_heads));
}

// The floats of the hungriest kernel. By vectors: two query-side tiles and one of sums, two key tiles and one or two of
// their sums. On the tile unit everything is padded to 32 rows and columns: queries, keys and values in bf16, weights
// twice in bf16, scores and sums. Rows of a cache in another type are decoded a block at a time, in f32 or bf16.
int64_t scratch_floats(const AttentionShape& shape) {
  const int64_t rows = tile_positions(shape) * (shape.heads / shape.kv_heads), padded = padded_dim(shape.head_dim);
  const int64_t tile_rows = (rows + 31) / 32 * 32, tile_dim = (shape.head_dim + 31) / 32 * 32;
  const int64_t by_vectors =
      3 * rows * padded + 2 * shape.head_dim * kKeyBlock + 2 * kKeyBlock * padded + 2 * rows * kKeyBlock;
  const int64_t on_tiles = tile_rows * tile_dim * 3 / 2 + kKeyBlock * tile_dim + 2 * tile_rows * kKeyBlock;
  const int64_t decoding = 2 * rows * padded + shape.head_dim * kKeyBlock + 3 * kKeyBlock * padded + rows * kKeyBlock;
  const int64_t on_tiles_decoding = on_tiles + kKeyBlock * padded;
  return std::max({by_vectors, decoding, on_tiles_decoding}) + 2 * rows + 2 * kMaxLanes;
}

int64_t head_rows(const AttentionShape& shape, int64_t length) { return length * (shape.heads / shape.kv_heads); }
// Of the backward of one kv head: q, dout, sums, lse and D of all its rows beside the tiles.
int64_t head_scratch_floats(const AttentionShape& shape, int64_t rows) {
  const int64_t tile_rows = tile_positions(shape) * (shape.heads / shape.kv_heads), padded = padded_dim(shape.head_dim);
  return rows * (3 * padded + 2) + 2 * shape.head_dim * kKeyBlock + 3 * kKeyBlock * padded + 2 * tile_rows * kKeyBlock +
         2 * kMaxLanes;
}

void check_shape(const AttentionShape& s) {
  TERN_CHECK(s.kv_heads > 0 && s.heads > 0 && s.heads % s.kv_heads == 0 && s.head_dim > 0 && s.scale > 0 &&
                 s.window >= 0 && (s.causal || s.window == 0) && s.softcap >= 0 && s.q_stride >= s.heads * s.head_dim &&
                 s.kv_stride >= s.kv_heads * s.head_dim && s.out_stride >= s.heads * s.head_dim,
             "attention: {} heads, {} kv heads, {} wide, scale {}, window {}, strides {} {} {}", s.heads, s.kv_heads,
             s.head_dim, s.scale, s.window, s.q_stride, s.kv_stride, s.out_stride);
}

// Of a pass: the products, and the elements of keys and values that its tiles load, transpose or copy. With one query a
// key is loaded for a single product, which takes the smaller part of the time.
struct Work {
  int64_t multiplications = 0, loaded = 0;
  void add(const AttentionShape& shape, int64_t queries, int64_t keys, int64_t tiles) {
    multiplications += queries * keys * shape.heads * shape.head_dim;
    loaded += 2 * tiles * keys * shape.head_dim;
  }
  bool repays_threads() const { return multiplications / 8 + loaded >= kParallelGrain; }
};

// Runs task(i, scratch) for i = count-1 … 0 on whichever thread is free: the last tile of a causal sequence is the
// heaviest.
template <class Task>
void for_each_task(int64_t scratch_bytes, int64_t count, const Work& work, Task task) {
  const bool alone = count == 1 || !work.repays_threads();
  RegionErrors errors;
#pragma omp parallel if (!alone)
  {
    float* scratch = nullptr;
    errors.guard([&] { scratch = static_cast<float*>(thread_scratch(scratch_bytes)); });
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < count; ++i)
      if (scratch) task(count - 1 - i, scratch);
  }
  errors.rethrow();
}

// Tiles of all sequences in one row: task i belongs to the sequence s with begins[s] <= i < begins[s + 1].
struct TaskList {
  std::vector<int64_t> begins = {0};
  void add_sequence(int64_t tasks) { begins.push_back(begins.back() + tasks); }
  int64_t count() const { return begins.back(); }
  struct Place {
    size_t sequence;
    int64_t task;
  };
  Place place(int64_t i) const {
    const auto next = std::upper_bound(begins.begin(), begins.end(), i);
    return {static_cast<size_t>(next - begins.begin()) - 1, i - *(next - 1)};
  }
};

AttentionTile tile_at(const AttentionShape& shape, int64_t task, int64_t positions, int64_t length) {
  const int64_t first = task / shape.kv_heads * positions;
  return {task % shape.kv_heads, first, std::min(positions, length - first)};
}

}  // namespace

int64_t attention_scratch_bytes(const AttentionShape& shape) {
  return scratch_floats(shape) * static_cast<int64_t>(sizeof(float));
}
int64_t attention_backward_scratch_bytes(const AttentionShape& shape, int64_t longest) {
  const int64_t group = shape.heads / shape.kv_heads,
                rows = std::min(head_rows(shape, longest), kHeadRows / group * group);
  return std::max(scratch_floats(shape), head_scratch_floats(shape, rows)) * static_cast<int64_t>(sizeof(float));
}

template <class T>
void attention_forward(const AttentionShape& shape, std::span<const AttentionSequence<T>> sequences, const T* q, T* out,
                       std::span<float> lse) {
  check_shape(shape);
  const int64_t positions = tile_positions(shape);
  TaskList tasks;
  Work work;
  for (const AttentionSequence<T>& s : sequences) {
    TERN_CHECK(s.query_count >= 0 && s.num_keys + s.ahead >= s.query_count && (!s.onto || !lse.empty()) &&
                   (s.pages ? s.layout.page_tokens > 0 : !s.kept.keys) &&
                   (lse.empty() || lse.size() >= static_cast<size_t>((s.query_begin + s.query_count) * shape.heads)),
               "attention_forward: {} queries from row {} of {} keys in pages of {}, {} sums kept", s.query_count,
               s.query_begin, s.num_keys, s.layout.page_tokens, lse.size());
    const int64_t tiles = ceil_div(s.query_count, positions) * shape.kv_heads;
    tasks.add_sequence(tiles);
    work.add(shape, s.query_count, s.num_keys, tiles);
  }
  const auto kernel = active<T>().forward;
  for_each_task(attention_scratch_bytes(shape), tasks.count(), work, [&](int64_t i, float* scratch) {
    const auto tile = [&](const TaskList::Place& at) {
      return tile_at(shape, at.task, positions, sequences[at.sequence].query_count);
    };
    const TaskList::Place place = tasks.place(i);
    AttentionNext<T> next;
    if (const int64_t after = i - omp_get_num_threads(); after >= 0) {
      const TaskList::Place at = tasks.place(after);
      next = {&sequences[at.sequence], tile(at)};
    }
    kernel(shape, sequences[place.sequence], tile(place), next, q, out, lse.empty() ? nullptr : lse.data(), scratch);
  });
}

// A kv head of a sequence is one task where these suffice for the threads and its rows fit the scratch: five products. Else two passes, dq by
// query tiles and dk, dv by key blocks, each with its own P: seven products, which any number of threads can share. The same bits.
template <class T>
void attention_backward(const AttentionShape& shape, std::span<const int64_t> starts, const T* q, const T* k,
                        const T* v, const T* out, const T* dout, std::span<const float> lse, T* dq, T* dk, T* dv) {
  check_shape(shape);
  if (starts.size() < 2) return;
  TERN_CHECK(lse.size() >= static_cast<size_t>(starts.back() * shape.heads),
             "attention_backward: {} rows of {} heads, {} sums", starts.back(), shape.heads, lse.size());
  const int64_t positions = tile_positions(shape);
  TaskList queries, keys, heads;
  Work work;
  int64_t longest = 0;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int64_t length = starts[s + 1] - starts[s];
    TERN_CHECK(length >= 0, "attention_backward: sequence {} begins at {} and ends at {}", s, starts[s], starts[s + 1]);
    const int64_t tiles = ceil_div(length, positions) * shape.kv_heads;
    queries.add_sequence(tiles);
    keys.add_sequence(ceil_div(length, kKeyBlock) * shape.kv_heads);
    heads.add_sequence(shape.kv_heads);
    work.add(shape, length, length, tiles);
    longest = std::max(longest, length);
  }
  const auto sequence = [&](size_t s) {
    const int64_t row = starts[s], q_row = row * shape.q_stride, kv_row = row * shape.kv_stride,
                  out_row = row * shape.out_stride;
    const int64_t length = starts[s + 1] - row;
    return AttentionGradients<T>{
        q + q_row,  k + kv_row,  v + kv_row,  out + out_row,  dout + out_row, lse.data() + row * shape.heads,
        dq + q_row, dk + kv_row, dv + kv_row, shape.q_stride, length,         length};
  };
  const AttentionKernels<T>& kernels = active<T>();
  if (head_rows(shape, longest) <= kHeadRows && heads.count() >= kTasksOfThread * omp_get_max_threads()) {
    for_each_task(attention_backward_scratch_bytes(shape, longest), heads.count(), work,
                  [&](int64_t i, float* scratch) {
                    const auto [s, head] = heads.place(i);
                    kernels.backward_head(shape, sequence(s), head, scratch);
                  });
    return;
  }
  const int64_t query_tasks = queries.count();
  for_each_task(attention_scratch_bytes(shape), query_tasks + keys.count(), work, [&](int64_t i, float* scratch) {
    if (i < query_tasks) {
      const auto [s, task] = queries.place(i);
      kernels.backward_queries(shape, sequence(s), tile_at(shape, task, positions, starts[s + 1] - starts[s]), scratch);
    } else {
      const auto [s, task] = keys.place(i - query_tasks);
      kernels.backward_keys(shape, sequence(s), tile_at(shape, task, kKeyBlock, starts[s + 1] - starts[s]), scratch);
    }
  });
}

namespace {

template <class T>
AttentionGradients<T, float> gradients_of(const AttentionShape& shape, const AttentionPiece& p,
                                          const AttentionInputs<T>& x, float* dq, float* dk, float* dv) {
  const int64_t q_row = p.query_row * shape.q_stride, kv_row = p.key_row * shape.kv_stride,
                out_row = p.query_row * shape.out_stride;
  return {.q = x.q + q_row,
          .k = x.k + kv_row,
          .v = x.v + kv_row,
          .out = x.out + out_row,
          .dout = x.dout + out_row,
          .lse = x.lse + p.query_row * shape.heads,
          .dq = dq ? dq + out_row : nullptr,
          .dk = dk ? dk + kv_row : nullptr,
          .dv = dv ? dv + kv_row : nullptr,
          .dq_stride = shape.out_stride,
          .num_queries = p.num_queries,
          .num_keys = p.num_keys,
          .ahead = p.distance,
          .adds = true};
}

// Tiles of queries, or blocks of keys, of all pieces.
template <class Kernel, class Gradients>
void for_each_tile(const AttentionShape& shape, std::span<const AttentionPiece> pieces, int64_t positions,
                   int64_t AttentionPiece::*count, Kernel kernel, Gradients gradients) {
  check_shape(shape);
  TERN_CHECK(shape.causal && !shape.slopes_in_bf16, "attention_onto: queries that see later keys, or slopes in bf16");
  TaskList tasks;
  Work work;
  for (const AttentionPiece& p : pieces) {
    const int64_t tiles = ceil_div(p.*count, positions) * shape.kv_heads;
    tasks.add_sequence(tiles);
    work.add(shape, p.num_queries, p.num_keys, tiles);
  }
  for_each_task(attention_scratch_bytes(shape), tasks.count(), work, [&](int64_t i, float* scratch) {
    const auto [s, task] = tasks.place(i);
    kernel(shape, gradients(pieces[s]), tile_at(shape, task, positions, pieces[s].*count), scratch);
  });
}

}  // namespace

template <class T>
void attention_onto(const AttentionShape& shape, std::span<const AttentionPiece> pieces, const T* q, const T* k,
                    const T* v, float* out, std::span<float> lse) {
  TERN_CHECK(shape.causal && !shape.slopes_in_bf16, "attention_onto: queries that see later keys, or slopes in bf16");
  std::vector<AttentionSequence<T>> sequences;
  for (const AttentionPiece& p : pieces) {
    const int64_t row = p.key_row * shape.kv_stride;
    sequences.push_back({p.query_row, p.num_queries, p.num_keys, k + row, v + row});
    sequences.back().ahead = p.distance + p.num_queries - p.num_keys;
    sequences.back().onto = out;
  }
  attention_forward<T>(shape, sequences, q, nullptr, lse);
}

template <class T>
void attention_queries_onto(const AttentionShape& shape, std::span<const AttentionPiece> pieces,
                            const AttentionInputs<T>& x, float* dq) {
  for_each_tile(shape, pieces, tile_positions(shape), &AttentionPiece::num_queries, active<T>().queries_onto,
                [&](const AttentionPiece& p) { return gradients_of(shape, p, x, dq, nullptr, nullptr); });
}

template <class T>
void attention_keys_onto(const AttentionShape& shape, std::span<const AttentionPiece> pieces,
                         const AttentionInputs<T>& x, float* dk, float* dv) {
  for_each_tile(shape, pieces, kKeyBlock, &AttentionPiece::num_keys, active<T>().keys_onto,
                [&](const AttentionPiece& p) { return gradients_of(shape, p, x, nullptr, dk, dv); });
}

#define TERN_INSTANTIATE(T)                                                                                          \
  template void attention_forward<T>(const AttentionShape&, std::span<const AttentionSequence<T>>, const T*, T*,     \
                                     std::span<float>);                                                              \
  template void attention_backward<T>(const AttentionShape&, std::span<const int64_t>, const T*, const T*, const T*, \
                                      const T*, const T*, std::span<const float>, T*, T*, T*);                       \
  template void attention_onto<T>(const AttentionShape&, std::span<const AttentionPiece>, const T*, const T*,        \
                                  const T*, float*, std::span<float>);                                               \
  template void attention_queries_onto<T>(const AttentionShape&, std::span<const AttentionPiece>,                    \
                                          const AttentionInputs<T>&, float*);                                        \
  template void attention_keys_onto<T>(const AttentionShape&, std::span<const AttentionPiece>,                       \
                                       const AttentionInputs<T>&, float*, float*);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(bf16)

}  // namespace tern
