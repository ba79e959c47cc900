#include "kernels/isa_selfcheck.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/coded_int8.h"
#include "kernels/cpu/head_loss.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/ref/attention_ref.h"
#include "kernels/ref/coded_int8_ref.h"
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
/// The same numbers in each type that kernels take or give, made once for all sets and threads.
struct Numbers {
  std::vector<double> exact;
  std::vector<float> f32;
  std::vector<bf16> bfloat16;
  double largest = 0;
  explicit Numbers(std::vector<double> v) : exact(std::move(v)), f32(cast<float>(exact)), bfloat16(cast<bf16>(exact)) {
    for (const double x : exact) largest = std::max(largest, std::abs(x));
  }
  size_t size() const { return exact.size(); }
  template <class T>
  const std::vector<T>& as() const {
    if constexpr (std::is_same_v<T, bf16>)
      return bfloat16;
    else
      return f32;
  }
};
double value_of(float x) { return static_cast<double>(x); }
double value_of(bf16 x) { return static_cast<double>(to_float(x)); }

/// Within `share` of the largest wanted value; 0: the bits of the wanted value in T.
template <class T>
std::string differs(std::string_view what, const std::vector<T>& got, const Numbers& want, double share) {
  const std::vector<T>& bits = want.as<T>();
  if (share == 0 && std::memcmp(got.data(), bits.data(), got.size() * sizeof(T)) == 0) return "";
  for (size_t i = 0; i < got.size(); ++i) {
    const double target = share > 0 ? want.exact[i] : value_of(bits[i]);
    if (!(std::abs(value_of(got[i]) - target) <= share * want.largest))
      return fmt::format("{}, element {}: got {}, want {}", what, i, value_of(got[i]), target);
  }
  return "";
}

// --- products: y += x·wᵀ, dx += dy·w, dw += dyᵀ·x from starts that are not zero
// ----------------------------------------

struct ProductCase {
  int64_t m, n, k;
  Numbers x, w, dy, y, dx, dw;
  ProductCase(int64_t rows, int64_t outputs, int64_t inputs)
      : m(rows),
        n(outputs),
        k(inputs),
        x(values(m * k, 1)),
        w(values(n * k, 2)),
        dy(values(m * n, 3)),
        y(from(m * n, 0.5, [&](auto& out) { multiply_ref(x.exact, w.exact, {}, m, n, k, true, out); })),
        dx(from(m * k, -0.5, [&](auto& out) { multiply_nn_ref(dy.exact, w.exact, m, n, k, true, out); })),
        dw(from(n * k, -0.25, [&](auto& out) { multiply_tn_ref(dy.exact, x.exact, m, n, k, out); })) {}

 private:
  template <class Add>
  static Numbers from(int64_t count, double start, Add add) {
    std::vector<double> out(static_cast<size_t>(count), start);
    add(out);
    return Numbers(std::move(out));
  }
};

struct VectorProducts {
  const MatmulTable& t;
  int64_t padding() const { return t.panel; }  // elements to which rows and columns of a packed weight are padded
  void pack(const float* w, int64_t n, int64_t k, float* to) const { t.pack_f32(w, n, k, to); }
  void pack(const bf16* w, int64_t n, int64_t k, bf16* to) const { t.pack_bf16(w, n, k, to); }
  static constexpr bool kForms[] = {true, false};  // whether the weight was packed
  void forward(bool packed, const float* x, const float* w, int64_t m, int64_t n, int64_t k, float* y) const {
    if (packed) return t.exact_f32(x, w, nullptr, m, n, k, true, y, n, nullptr);
    t.nt_f32(x, w, nullptr, m, n, k, true, y);
  }
  void forward(bool packed, const bf16* x, const bf16* w, int64_t m, int64_t n, int64_t k, float* y) const {
    if (packed) return t.exact_bf16_to_f32(x, w, nullptr, m, n, k, true, y, n, nullptr);
    t.nt_bf16_to_f32(x, w, nullptr, m, n, k, true, y);
  }
  void forward(bool packed, const bf16* x, const bf16* w, int64_t m, int64_t n, int64_t k, bf16* y) const {
    std::vector<float> room(static_cast<size_t>(m * wide_stride(k)));
    if (packed) return t.exact_bf16(x, w, nullptr, m, n, k, true, y, n, t.widens_bf16 ? room.data() : nullptr);
    t.nt_bf16(x, w, nullptr, m, n, k, true, y);
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
  static constexpr bool kForms[] = {true};
  template <class Out>
  void forward(bool, const bf16* x, const bf16* w, int64_t m, int64_t n, int64_t k, Out* y) const {
    const WeightRows<bf16> rows{w, n};
    tile_forward<Out>(t, x, {&rows, 1}, nullptr, m, n, k, true, y, n);
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
  const std::vector<T>&x = c.x.as<T>(), &w = c.w.as<T>();
  std::vector<T> packed(static_cast<size_t>((c.n + set.padding()) * (c.k + set.padding())));
  set.pack(w.data(), c.n, c.k, packed.data());
  for (const int64_t rows : {c.m, int64_t{1}})  // few rows may have a kernel of their own
    for (const bool is_packed : Set::kForms) {
      std::vector<Out> y(static_cast<size_t>(rows * c.n), make<Out>(0.5));
      set.forward(is_packed, x.data(), (is_packed ? packed : w).data(), rows, c.n, c.k, y.data());
      const std::string what = fmt::format("{} product of {} rows{}", name, rows, is_packed ? "" : ", not packed");
      if (auto failure = differs(what, y, c.y, 0); !failure.empty()) return failure;
    }
  return "";
}
template <class T, class Set>
std::string compare_gradients(const Set& set, const ProductCase& c, std::string_view name) {
  const std::vector<T>&x = c.x.as<T>(), &w = c.w.as<T>(), &dy = c.dy.as<T>();
  std::vector<T> dx(c.dx.size(), make<T>(-0.5));
  std::vector<float> dw(c.dw.size(), -0.25f);
  set.nn(dy.data(), w.data(), c.m, c.n, c.k, dx.data());
  set.tn(dy.data(), x.data(), c.m, c.n, c.k, dw.data());
  if (auto failure = differs(fmt::format("{} input gradient", name), dx, c.dx, 0); !failure.empty()) return failure;
  return differs(fmt::format("{} weight gradient", name), dw, c.dw, 0);
}
template <class T, class Set>
std::string compare_products(const Set& set, const ProductCase& c, std::string_view name) {
  std::string failure = compare_forward<T, float>(set, c, name);
  if constexpr (!std::is_same_v<T, float>)
    if (failure.empty()) failure = compare_forward<T, T>(set, c, fmt::format("{} to {}", name, name));
  return failure.empty() ? compare_gradients<T>(set, c, name) : failure;
}

// The halves on and below the diagonal, beside products of whole matrices, which have been compared before.
std::string compare_symmetric(const MatmulTable& t, const ProductCase& c) {
  const std::vector<float>& x = c.x.as<float>();
  const auto square = static_cast<size_t>(c.k * c.k);
  std::vector<float> whole(square), gram(square), square_whole(square), square_half(square);
  t.tn_f32(x.data(), x.data(), c.m, c.k, c.k, whole.data());
  t.gram_lower(x.data(), c.m, c.k, gram.data());
  t.nn_f32(whole.data(), whole.data(), c.k, c.k, c.k, false, square_whole.data());
  t.square_lower(whole.data(), c.k, square_half.data());
  for (int64_t row = 0; row < c.k; ++row)
    for (int64_t column = 0; column <= row; ++column) {
      const auto at = static_cast<size_t>(row * c.k + column);
      if (gram[at] != whole[at] || square_half[at] != square_whole[at])
        return fmt::format("f32 symmetric product, row {}, column {}: got {} and {}, want {} and {}", row, column,
                           gram[at], square_half[at], whole[at], square_whole[at]);
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
  Numbers q{values(kLength * 2 * kDim, 1)}, k{values(kLength * kDim, 2)}, v{values(kLength * kDim, 3)},
      dout{values(kLength * 2 * kDim, 4)};
  Numbers out{{}}, lse{{}}, dq{{}}, dk{{}}, dv{{}};
  AttentionCase() {
    const AttentionSequence<double> all = {0, kLength, kLength, k.exact.data(), v.exact.data()};
    const int64_t starts[] = {0, kLength};
    std::vector<double> out_ref(q.size()), lse_ref(kLength * 2), dq_ref(q.size()), dk_ref(k.size()), dv_ref(v.size());
    attention_forward_ref(shape, {&all, 1}, q.exact.data(), out_ref.data(), lse_ref);
    attention_backward_ref(shape, starts, q.exact.data(), k.exact.data(), v.exact.data(), out_ref.data(),
                           dout.exact.data(), lse_ref, dq_ref.data(), dk_ref.data(), dv_ref.data());
    out = Numbers(std::move(out_ref)), lse = Numbers(std::move(lse_ref)), dq = Numbers(std::move(dq_ref));
    dk = Numbers(std::move(dk_ref)), dv = Numbers(std::move(dv_ref));
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
  const std::vector<T>&q = c.q.as<T>(), &k = c.k.as<T>(), &v = c.v.as<T>(), &dout = c.dout.as<T>();
  std::vector<T> out(q.size()), dq(q.size()), dk(k.size()), dv(v.size());
  std::vector<float> lse(c.lse.size());
  const AttentionSequence<T> all = {0, kLength, kLength, k.data(), v.data()};
  const AttentionGradients<T> gradients = {q.data(),  k.data(),  v.data(),  out.data(),       dout.data(), lse.data(),
                                           dq.data(), dk.data(), dv.data(), c.shape.q_stride, kLength,     kLength};
  auto* const scratch = static_cast<float*>(thread_scratch(attention_scratch_bytes(c.shape)));
  const int64_t positions = kTileRows / c.shape.heads;
  for (int64_t i = 0; i < kLength; i += positions)
    kernels.forward(c.shape, all, {0, i, std::min(positions, kLength - i)}, {}, q.data(), out.data(), lse.data(),
                    scratch);
  for (int64_t i = 0; i < kLength; i += positions)
    kernels.backward_queries(c.shape, gradients, {0, i, std::min(positions, kLength - i)}, scratch);
  for (int64_t i = 0; i < kLength; i += kKeyBlock)
    kernels.backward_keys(c.shape, gradients, {0, i, std::min(kKeyBlock, kLength - i)}, scratch);
  std::string failure = differs(name, out, c.out, share);
  if (failure.empty()) failure = compare_gradients_of(c, name, share, dq, dk, dv);
  if (!failure.empty()) return failure;
  const int64_t head_scratch = attention_backward_scratch_bytes(c.shape, kLength);
  kernels.backward_head(c.shape, gradients, 0, static_cast<float*>(thread_scratch(head_scratch)));
  return compare_gradients_of(c, name, share, dq, dk, dv);
}

std::string compare_tile_attention(const TileAttentionTable& kernels, const AttentionCase& c) {
  constexpr std::string_view kName = "attention of training";
  const std::vector<bf16>&q = c.q.bfloat16, &k = c.k.bfloat16, &v = c.v.bfloat16, &dout = c.dout.bfloat16;
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
  Numbers x{values(kRows * kWidth, 1)}, w{values(kVocab * kWidth, 2)}, losses{{}}, dx{{}}, dw{{}};
  std::vector<int32_t> targets;
  HeadCase() {
    for (int32_t r = 0; r < kRows; ++r) targets.push_back(r % 5 == 4 ? -1 : r * 37 % static_cast<int32_t>(kVocab));
    std::vector<double> losses_ref(kRows), dx_ref(x.size()), dw_ref(kVocab * kWidth, 0.5);
    head_loss_ref(kVocab, kWidth, targets, 0.5, x.exact, w.exact, losses_ref, dx_ref, dw_ref);
    losses = Numbers(std::move(losses_ref)), dx = Numbers(std::move(dx_ref)), dw = Numbers(std::move(dw_ref));
  }
};

std::string compare_head(const HeadLossTable& kernels, const HeadCase& c) {
  const std::vector<bf16>&x = c.x.bfloat16, &w = c.w.bfloat16;
  std::vector<float> losses(c.losses.size()), dw(c.dw.size(), 0.5f);
  std::vector<bf16> dx(c.dx.size());
  std::vector<std::byte> scratch(
      static_cast<size_t>(head_loss_scratch_bytes(kernels, HeadCase::kRows, HeadCase::kVocab, HeadCase::kWidth)));
  head_loss(kernels, HeadCase::kVocab, HeadCase::kWidth, c.targets, 0.5f, x, w, losses, dx, dw, scratch);
  std::string failure = differs("loss of the head", losses, c.losses, 1e-4);
  if (failure.empty()) failure = differs("input gradient of the head", dx, c.dx, kFactorShare);
  return failure.empty() ? differs("weight gradient of the head", dw, c.dw, kFactorShare) : failure;
}

// --- integer products of coded weights ------------------------------------------------------------------------------

struct Int8Case {
  static constexpr int64_t kRows = 18, kOut = 33, kColumns = 288;  // more than a tile, and a tail, in each
  std::vector<float> x;
  std::vector<uint8_t> w;  // rows of Q8_0
  Numbers y{{}};
  Int8Case() : x(cast<float>(values(kRows * kColumns, 3))) {
    constexpr int64_t kBlock = 34;
    for (int64_t i = 0; i < kOut * kColumns / 32 * kBlock; ++i)  // scales of 1
      w.push_back(static_cast<uint8_t>(i % kBlock == 0 ? 0 : i % kBlock == 1 ? 0x3c : i * 37 + i / 7));
    const CodeGroupsTable& portable = TERN_TABLE_OF(code_groups_table, Isa::portable);
    std::vector<std::vector<CodeGroups>> groups;
    for (int64_t r = 0; r < kOut; ++r)
      for (int64_t k = 0, at = r * kColumns / 32; k < kColumns; k += kGroupedCodes, at += kGroupedCodes / 32) {
        if (k == 0) groups.emplace_back();
        portable.of[static_cast<int>(WeightType::q8_0)](
            w.data() + at * kBlock, std::min<int64_t>(8, (kColumns - k) / 32), groups.back().emplace_back());
      }
    std::vector<double> want;
    for (int64_t i = 0; i < kRows; ++i)
      for (const std::vector<CodeGroups>& row : groups)
        want.push_back(dot_int8_ref(std::span(x).subspan(static_cast<size_t>(i * kColumns), kColumns), row));
    y = Numbers(std::move(want));
  }
};

std::string compare_int8(const CodedInt8Table& kernels, const Int8Case& c) {
  constexpr int64_t m = Int8Case::kRows, n = Int8Case::kOut, k = Int8Case::kColumns;
  const CodedRows rows{WeightType::q8_0, c.w.data(), n};
  std::vector<float> y(c.y.size());
  kernels.f32(c.x.data(), &rows, nullptr, m, n, k, false, y.data(), n);
  std::string failure = differs("product in integers", y, c.y, 0);
  if (!failure.empty() || !kernels.tiles.f32) return failure;
  std::ranges::fill(y, 0.0f);
  multiply_int8_on_tiles<float, float>(kernels.tiles, c.x.data(), {&rows, 1}, nullptr, m, n, k, false, y.data(), n);
  return differs("product in integers on tiles", y, c.y, 0);
}

// --- all of it, in every thread
// -----------------------------------------------------------------------------------------

struct Cases {
  // Full and partial tiles, a partial panel, an odd pair; then a long sum for each of the three products, as those are
  // taken in blocks.
  std::vector<ProductCase> products;
  std::unique_ptr<AttentionCase> attention;
  std::unique_ptr<HeadCase> head;
  Int8Case int8;
  Cases() {
    std::thread beside([this] { attention = std::make_unique<AttentionCase>(), head = std::make_unique<HeadCase>(); });
    products = {{40, 70, 37}, {18, 20, 1057}, {18, 801, 20}, {801, 33, 35}};
    beside.join();
  }
};

// Every `parts`-th comparison from `part` on, until one fails.
std::string compare(const IsaKernels& kernels, const Cases& c, int part, int parts) {
  std::string failure;
  int next = 0;
  const auto check = [&](const auto& comparison) {
    if (next++ % parts == part && failure.empty()) failure = comparison();
  };
  for (const ProductCase& p : c.products)
    check([&] { return compare_products<float>(VectorProducts{kernels.matmul}, p, "f32"); });
  for (const ProductCase& p : c.products)
    if (p.k < 100) check([&] { return compare_symmetric(kernels.matmul, p); });  // the square costs k³
  for (const ProductCase& p : c.products)
    check([&] {
      return kernels.tiles.present ? compare_products<bf16>(TileProducts{kernels.tiles}, p, "bf16")
                                   : compare_products<bf16>(VectorProducts{kernels.matmul}, p, "bf16");
    });
  check([&] { return compare_attention<float>(kernels.attention.f32, *c.attention, "f32 attention", 1e-4); });
  check([&] {
    return compare_attention<bf16>(kernels.attention.bfloat16, *c.attention, "bf16 attention", kFactorShare);
  });
  if (kernels.tile_attention.present)
    check([&] { return compare_tile_attention(kernels.tile_attention, *c.attention); });
  check([&] { return compare_int8(kernels.int8, c.int8); });
  if (kernels.head_loss.present) check([&] { return compare_head(kernels.head_loss, *c.head); });
  return failure;
}

// Of each set what failed, in as many threads as a team has, each of which is a team of one for the regions within. What
// every processor has is compared once, a share by each thread.
std::vector<std::string> compare_in_every_thread(std::span<const IsaTest> tests, const Cases& cases, int num_threads) {
  std::vector<std::vector<std::string>> failures(tests.size(),
                                                 std::vector<std::string>(static_cast<size_t>(num_threads)));
  std::thread([&] {
#pragma omp parallel num_threads(num_threads)
    for (size_t i = 0; i < tests.size(); ++i) {
      const int thread = omp_get_thread_num();
      const bool shared = tests[i].always_there;
      failures[i][static_cast<size_t>(thread)] =
          compare(tests[i].kernels, cases, shared ? thread : 0, shared ? omp_get_num_threads() : 1);
    }
  }).join();
  std::vector<std::string> first;
  for (const std::vector<std::string>& of_set : failures) {
    const auto failed = std::ranges::find_if(of_set, [](const std::string& f) { return !f.empty(); });
    first.push_back(failed == of_set.end() ? "" : fmt::format("thread {}: {}", failed - of_set.begin(), *failed));
  }
  return first;
}

}  // namespace

IsaKernels kernels_of(Isa isa) {
  return {.matmul = TERN_TABLE_OF(matmul_table, isa),
          .tiles = TERN_TABLE_OF(tile_matmul_table, isa),
          .head_loss = TERN_TABLE_OF(head_loss_table, isa),
          .attention = TERN_TABLE_OF(attention_table, isa),
          .tile_attention = TERN_TABLE_OF(tile_attention_table, isa),
          .int8 = TERN_TABLE_OF(coded_int8_table, isa)};
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
  const IsaTest test{kernels, always_there};
  const Trial trial = try_in_a_copy([&] { return compare_in_every_thread({&test, 1}, cases, num_threads).front(); });
  if (trial.made) return trial.said;
  return always_there ? compare(kernels, cases, 0, 1)
                      : "no copy of this process could be made to try it in: " + trial.said;
}

std::vector<std::string> self_tests(std::span<const IsaTest> tests) {
  const Cases& cases = test_cases();
  const int num_threads = omp_get_max_threads();
  const Trial trial = try_in_a_copy([&] {
    std::string all;
    for (const std::string& failure : compare_in_every_thread(tests, cases, num_threads)) all += failure + '\0';
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
