#include "kernels/isa_selfcheck.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/head_loss.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/ref/attention_ref.h"
#include "kernels/ref/head_loss_ref.h"
#include "kernels/ref/matmul_ref.h"
#include "kernels/trial_process.h"

namespace tern {
namespace {

/// Small whole numbers over 8: in bf16 they are themselves, and sums of products are exact in f32, so that any order
/// gives the same bits.
std::vector<double> values(int64_t count, int64_t salt) {
  std::vector<double> v(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) v[static_cast<size_t>(i)] = static_cast<double>((i * 7 + salt * 5) % 23 - 11) / 8;
  return v;
}
template <class T>
T make(double x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}
template <class T>
std::vector<T> cast(const std::vector<double>& v) {
  std::vector<T> out;
  out.reserve(v.size());
  for (const double x : v) out.push_back(make<T>(x));
  return out;
}
double value_of(float x) { return static_cast<double>(x); }
double value_of(bf16 x) { return static_cast<double>(to_float(x)); }

/// Within `share` of the largest wanted value; 0: the bits of the wanted value in T.
template <class T>
std::string differs(std::string_view what, const std::vector<T>& got, const std::vector<double>& want, double share) {
  double largest = 0;
  for (const double x : want) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < got.size(); ++i) {
    const double target = share > 0 ? want[i] : value_of(make<T>(want[i]));
    if (!(std::abs(value_of(got[i]) - target) <= share * largest))
      return fmt::format("{}, element {}: got {}, want {}", what, i, value_of(got[i]), target);
  }
  return "";
}

// --- products: y += x·wᵀ, dx += dy·w, dw += dyᵀ·x from starts that are not zero
// ----------------------------------------

struct ProductCase {
  int64_t m, n, k;
  std::vector<double> x, w, dy, y, dx, dw;
  ProductCase(int64_t rows, int64_t outputs, int64_t inputs)
      : m(rows),
        n(outputs),
        k(inputs),
        x(values(m * k, 1)),
        w(values(n * k, 2)),
        dy(values(m * n, 3)),
        y(static_cast<size_t>(m * n), 0.5),
        dx(static_cast<size_t>(m * k), -0.5),
        dw(static_cast<size_t>(n * k), -0.25) {
    multiply_ref(x, w, {}, m, n, k, true, y);
    multiply_nn_ref(dy, w, m, n, k, true, dx);
    multiply_tn_ref(dy, x, m, n, k, dw);
  }
};

struct VectorProducts {
  const MatmulTable& t;
  int64_t padding() const { return t.panel; }  // elements to which rows and columns of a packed weight are padded
  void pack(const float* w, int64_t n, int64_t k, float* to) const { t.pack_f32(w, n, k, to); }
  void pack(const bf16* w, int64_t n, int64_t k, bf16* to) const { t.pack_bf16(w, n, k, to); }
  void forward(const float* x, const float* w, int64_t m, int64_t n, int64_t k, float* y) const {
    t.exact_f32(x, w, nullptr, m, n, k, true, y);
  }
  void forward(const bf16* x, const bf16* w, int64_t m, int64_t n, int64_t k, float* y) const {
    t.exact_bf16_to_f32(x, w, nullptr, m, n, k, true, y);
  }
  void forward(const bf16* x, const bf16* w, int64_t m, int64_t n, int64_t k, bf16* y) const {
    t.exact_bf16(x, w, nullptr, m, n, k, true, y);
  }
  void nn(const float* dy, const float* w, int64_t m, int64_t n, int64_t k, float* dx) const {
    t.nn_f32(dy, w, m, n, k, true, dx);
  }
  void nn(const bf16* dy, const bf16* w, int64_t m, int64_t n, int64_t k, bf16* dx) const {
    t.nn_bf16(dy, w, m, n, k, true, dx);
  }
  void tn(const float* dy, const float* x, int64_t m, int64_t n, int64_t k, float* dw) const {
    t.tn_f32(dy, x, m, n, k, dw);
  }
  void tn(const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw) const {
    t.tn_bf16(dy, x, m, n, k, dw);
  }
};
struct TileProducts {
  const TileMatmulTable& t;
  int64_t padding() const { return 0; }
  void pack(const bf16* w, int64_t n, int64_t k, bf16* to) const { std::copy_n(w, n * k, to); }
  template <class Out>
  void forward(const bf16* x, const bf16* w, int64_t m, int64_t n, int64_t k, Out* y) const {
    const WeightRows<bf16> rows{w, n};
    tile_forward<Out>(t, x, {&rows, 1}, nullptr, m, n, k, true, y);
  }
  void nn(const bf16* dy, const bf16* w, int64_t m, int64_t n, int64_t k, bf16* dx) const {
    tile_nn(t, dy, w, m, n, k, true, dx);
  }
  void tn(const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw) const {
    tile_tn(t, dy, x, m, n, k, dw);
  }
};

template <class T, class Out, class Set>
std::string compare_forward(const Set& set, const ProductCase& c, std::string_view name) {
  const auto x = cast<T>(c.x), w = cast<T>(c.w);
  std::vector<T> packed(static_cast<size_t>((c.n + set.padding()) * (c.k + set.padding())));
  set.pack(w.data(), c.n, c.k, packed.data());
  for (const int64_t rows : {c.m, int64_t{1}}) {  // few rows may have a kernel of their own
    std::vector<Out> y(static_cast<size_t>(rows * c.n), make<Out>(0.5));
    set.forward(x.data(), packed.data(), rows, c.n, c.k, y.data());
    if (auto failure = differs(fmt::format("{} product of {} rows", name, rows), y, c.y, 0); !failure.empty())
      return failure;
  }
  return "";
}
template <class T, class Set>
std::string compare_gradients(const Set& set, const ProductCase& c, std::string_view name) {
  const auto x = cast<T>(c.x), w = cast<T>(c.w), dy = cast<T>(c.dy);
  std::vector<T> dx(c.dx.size(), make<T>(-0.5));
  std::vector<float> dw(c.dw.size(), -0.25f);
  set.nn(dy.data(), w.data(), c.m, c.n, c.k, dx.data());
  set.tn(dy.data(), x.data(), c.m, c.n, c.k, dw.data());
  if (auto failure = differs(fmt::format("{} input gradient", name), dx, c.dx, 0); !failure.empty()) return failure;
  return differs(fmt::format("{} weight gradient", name), dw, c.dw, 0);
}
template <class T, class Set>
std::string compare_products(const Set& set, const std::vector<ProductCase>& cases, std::string_view name) {
  for (const ProductCase& c : cases) {
    std::string failure = compare_forward<T, float>(set, c, name);
    if constexpr (!std::is_same_v<T, float>)
      if (failure.empty()) failure = compare_forward<T, T>(set, c, fmt::format("{} to {}", name, name));
    if (failure.empty()) failure = compare_gradients<T>(set, c, name);
    if (!failure.empty()) return failure;
  }
  return "";
}

// --- attention of one sequence, two heads of one key head
// ---------------------------------------------------------------

constexpr int64_t kLength = 70, kDim = 40;  // more than one block of keys, with tails
constexpr double kFactorShare = 1.0 / 32;   // factors rounded to bf16 on the way

struct AttentionCase {
  AttentionShape shape = {.heads = 2,
                          .kv_heads = 1,
                          .head_dim = kDim,
                          .scale = 0.15f,
                          .window = 0,
                          .q_stride = 2 * kDim,
                          .kv_stride = kDim,
                          .out_stride = 2 * kDim};
  std::vector<double> q = values(kLength * 2 * kDim, 1), k = values(kLength * kDim, 2), v = values(kLength * kDim, 3),
                      dout = values(kLength * 2 * kDim, 4), out = q, lse = std::vector<double>(kLength * 2), dq = q,
                      dk = k, dv = v;
  AttentionCase() {
    const AttentionSequence<double> all = {0, kLength, kLength, k.data(), v.data()};
    const int64_t starts[] = {0, kLength};
    attention_forward_ref(shape, {&all, 1}, q.data(), out.data(), lse);
    attention_backward_ref(shape, starts, q.data(), k.data(), v.data(), out.data(), dout.data(), lse, dq.data(),
                           dk.data(), dv.data());
  }
};

template <class T>
std::string compare_gradients_of(const AttentionCase& c, std::string_view name, double share, const std::vector<T>& dq,
                                 const std::vector<T>& dk, const std::vector<T>& dv) {
  std::string failure = differs(fmt::format("{} dq", name), dq, c.dq, share);
  if (failure.empty()) failure = differs(fmt::format("{} dk", name), dk, c.dk, share);
  return failure.empty() ? differs(fmt::format("{} dv", name), dv, c.dv, share) : failure;
}

template <class T>
std::string compare_attention(const AttentionKernels<T>& kernels, const AttentionCase& c, std::string_view name,
                              double share) {
  const auto q = cast<T>(c.q), k = cast<T>(c.k), v = cast<T>(c.v), dout = cast<T>(c.dout);
  std::vector<T> out(q.size()), dq(q.size()), dk(k.size()), dv(v.size());
  std::vector<float> lse(c.lse.size());
  const AttentionSequence<T> all = {0, kLength, kLength, k.data(), v.data()};
  const AttentionGradients<T> gradients = {q.data(),   k.data(),  v.data(),  out.data(), dout.data(),
                                           lse.data(), dq.data(), dk.data(), dv.data(),  kLength};
  auto* const scratch = static_cast<float*>(thread_scratch(attention_scratch_bytes(c.shape)));
  const int64_t positions = kTileRows / c.shape.heads;
  for (int64_t i = 0; i < kLength; i += positions)
    kernels.forward(c.shape, all, {0, i, std::min(positions, kLength - i)}, q.data(), out.data(), lse.data(), scratch);
  for (int64_t i = 0; i < kLength; i += positions)
    kernels.backward_queries(c.shape, gradients, {0, i, std::min(positions, kLength - i)}, scratch);
  for (int64_t i = 0; i < kLength; i += kKeyBlock)
    kernels.backward_keys(c.shape, gradients, {0, i, std::min(kKeyBlock, kLength - i)}, scratch);
  std::string failure = differs(name, out, c.out, share);
  return failure.empty() ? compare_gradients_of(c, name, share, dq, dk, dv) : failure;
}

std::string compare_tile_attention(const TileAttentionTable& kernels, const AttentionCase& c) {
  constexpr std::string_view kName = "attention of training";
  const auto q = cast<bf16>(c.q), k = cast<bf16>(c.k), v = cast<bf16>(c.v), dout = cast<bf16>(c.dout);
  std::vector<bf16> out(q.size()), dq(q.size()), dk(k.size()), dv(v.size());
  std::vector<float> lse(c.lse.size());
  const TileAttentionTask task = {.kv_head = 0,
                                  .length = kLength,
                                  .first_query = 0,
                                  .num_keys = kLength,
                                  .q = q.data(),
                                  .k = k.data(),
                                  .v = v.data(),
                                  .new_out = out.data(),
                                  .new_lse = lse.data(),
                                  .out = out.data(),
                                  .dout = dout.data(),
                                  .lse = lse.data(),
                                  .dq = dq.data(),
                                  .dk = dk.data(),
                                  .dv = dv.data()};
  kernels.forward(c.shape, task, thread_scratch(kernels.scratch_bytes(c.shape, kLength, false)));
  kernels.backward(c.shape, task, thread_scratch(kernels.scratch_bytes(c.shape, kLength, true)));
  std::string failure = differs(kName, out, c.out, kFactorShare);
  return failure.empty() ? compare_gradients_of(c, kName, kFactorShare, dq, dk, dv) : failure;
}

// --- the fused head
// -----------------------------------------------------------------------------------------------------

struct HeadCase {
  static constexpr int64_t kRows = 20, kVocab = 300, kWidth = 40;
  std::vector<double> x = values(kRows * kWidth, 1), w = values(kVocab * kWidth, 2),
                      losses = std::vector<double>(kRows), dx = x, dw = std::vector<double>(kVocab * kWidth, 0.5);
  std::vector<int32_t> targets;
  HeadCase() {
    for (int32_t r = 0; r < kRows; ++r) targets.push_back(r % 5 == 4 ? -1 : r * 37 % static_cast<int32_t>(kVocab));
    head_loss_ref(kVocab, kWidth, targets, 0.5, x, w, losses, dx, dw);
  }
};

std::string compare_head(const HeadLossTable& kernels, const HeadCase& c) {
  const auto x = cast<bf16>(c.x), w = cast<bf16>(c.w);
  std::vector<float> losses(c.losses.size()), dw(c.dw.size(), 0.5f);
  std::vector<bf16> dx(c.dx.size());
  std::vector<std::byte> scratch(
      static_cast<size_t>(head_loss_scratch_bytes(kernels, HeadCase::kRows, HeadCase::kVocab, HeadCase::kWidth)));
  head_loss(kernels, HeadCase::kVocab, HeadCase::kWidth, c.targets, 0.5f, x, w, losses, dx, dw, scratch);
  std::string failure = differs("loss of the head", losses, c.losses, 1e-4);
  if (failure.empty()) failure = differs("input gradient of the head", dx, c.dx, kFactorShare);
  return failure.empty() ? differs("weight gradient of the head", dw, c.dw, kFactorShare) : failure;
}

// --- all of it, in every thread
// -----------------------------------------------------------------------------------------

struct Cases {
  // Full and partial tiles, a partial panel, an odd pair; then a long sum for each of the three products, as those are
  // taken in blocks.
  std::vector<ProductCase> products = {{40, 70, 37}, {18, 20, 1057}, {18, 530, 20}, {530, 33, 35}};
  AttentionCase attention;
  HeadCase head;
};

std::string compare_all(const IsaKernels& kernels, const Cases& c) {
  std::string failure = compare_products<float>(VectorProducts{kernels.matmul}, c.products, "f32");
  if (failure.empty())
    failure = kernels.tiles.present ? compare_products<bf16>(TileProducts{kernels.tiles}, c.products, "bf16")
                                    : compare_products<bf16>(VectorProducts{kernels.matmul}, c.products, "bf16");
  if (failure.empty()) failure = compare_attention<float>(kernels.attention.f32, c.attention, "f32 attention", 1e-4);
  if (failure.empty())
    failure = compare_attention<bf16>(kernels.attention.half, c.attention, "bf16 attention", kFactorShare);
  if (failure.empty() && kernels.tile_attention.present)
    failure = compare_tile_attention(kernels.tile_attention, c.attention);
  if (failure.empty() && kernels.head_loss.present) failure = compare_head(kernels.head_loss, c.head);
  return failure;
}

// In as many threads as a team has, each of which is a team of one for the regions within.
std::string compare_in_every_thread(const IsaKernels& kernels, const Cases& cases, int num_threads) {
  std::vector<std::string> failures(static_cast<size_t>(num_threads));
  std::thread([&] {
#pragma omp parallel num_threads(num_threads)
    failures[static_cast<size_t>(omp_get_thread_num())] = compare_all(kernels, cases);
  }).join();
  for (size_t i = 0; i < failures.size(); ++i)
    if (!failures[i].empty()) return fmt::format("thread {}: {}", i, failures[i]);
  return "";
}

}  // namespace

IsaKernels kernels_of(Isa isa) {
  return {.matmul = TERN_TABLE_OF(matmul_table, isa),
          .tiles = TERN_TABLE_OF(tile_matmul_table, isa),
          .head_loss = TERN_TABLE_OF(head_loss_table, isa),
          .attention = TERN_TABLE_OF(attention_table, isa),
          .tile_attention = TERN_TABLE_OF(tile_attention_table, isa)};
}

namespace {

const Cases& test_cases() {
  static const Cases cases;
  return cases;
}

}  // namespace

std::string self_test(const IsaKernels& kernels, bool always_there) {
  const Cases& cases = test_cases();
  // An instruction that is announced and missing ends a process with SIGILL, one that the system forbids (a
  // configuration of tiles, say) with SIGSEGV: in a copy, that is an answer.
  const int num_threads = omp_get_max_threads();
  const Trial trial = try_in_a_copy([&] { return compare_in_every_thread(kernels, cases, num_threads); });
  if (trial.made) return trial.said;
  return always_there ? compare_all(kernels, cases)
                      : "no copy of this process could be made to try it in: " + trial.said;
}

std::vector<std::string> self_tests(std::span<const IsaTest> tests) {
  const Cases& cases = test_cases();
  const int num_threads = omp_get_max_threads();
  const Trial trial = try_in_a_copy([&] {
    std::string all;
    for (const IsaTest& t : tests) all += compare_in_every_thread(t.kernels, cases, num_threads) + '\0';
    return all;
  });
  std::vector<std::string> failures;
  // Each answer ends with a zero byte; how a copy ended has none.
  for (size_t begin = 0, end; (end = trial.said.find('\0', begin)) != std::string::npos; begin = end + 1)
    failures.push_back(trial.said.substr(begin, end - begin));
  if (trial.made && failures.size() == tests.size()) return failures;
  failures.clear();
  for (const IsaTest& t : tests) failures.push_back(self_test(t.kernels, t.always_there));
  return failures;
}

}  // namespace tern
