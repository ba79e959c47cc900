#include "model/ops.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/scale.h"
#include "kernels/cpu/softcap.h"
#include "kernels/cpu/vector.h"
#include "kernels/ref/activation_ref.h"
#include "kernels/ref/cross_entropy_ref.h"
#include "kernels/ref/norm_ref.h"
#include "kernels/ref/rope_ref.h"
#include "kernels/ref/vector_ref.h"
#include "model/number.h"

namespace tern::ops {

namespace {

template <class T>
constexpr bool kIsRef = std::is_same_v<T, double>;

Activation kernel_activation(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::silu:
      return Activation::silu;
    case ActivationKind::gelu_erf:
      return Activation::gelu_erf;
    case ActivationKind::gelu_tanh:
      return Activation::gelu_tanh;
    case ActivationKind::relu:
      return Activation::relu;
  }
  TERN_CHECK(false, "activation {}", static_cast<int>(kind));
  return {};
}

}  // namespace

void norm(const NormSpec& spec, const NormWeights& w, const Tensor& x, const Tensor& y, const Tensor& mean,
          const Tensor& rstd) {
  if (!spec.present()) return copy(x, y);
  const auto eps = static_cast<float>(spec.epsilon), offset = static_cast<float>(spec.offset);
  by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>) {
      const auto r = span_or_none<double>(rstd);
      if (spec.kind == NormKind::rms)
        return rms_norm_ref(x.span<T>(), w.weight.span<T>(), spec.epsilon, y.span<T>(), r, spec.offset);
      layer_norm_ref(x.span<T>(), w.weight.span<T>(), span_or_none<T>(w.bias), spec.epsilon, y.span<T>(),
                     span_or_none<double>(mean), r);
    } else {
      const auto r = span_or_none<float>(rstd);
      if (spec.kind == NormKind::rms) return rms_norm<T>(x.span<T>(), w.weight.span<T>(), eps, y.span<T>(), r, offset);
      layer_norm<T>(x.span<T>(), w.weight.span<T>(), span_or_none<T>(w.bias), eps, y.span<T>(),
                    span_or_none<float>(mean), r);
    }
  });
}

void norm_backward_input(const NormSpec& spec, const NormWeights& w, const Tensor& dy, const Tensor& x,
                         const Tensor& mean, const Tensor& rstd, const Tensor& dx) {
  if (!spec.present()) return copy(dy, dx);
  by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>) {
      if (spec.kind == NormKind::rms)
        return rms_norm_backward_input_ref(dy.span<T>(), x.span<T>(), w.weight.span<T>(), rstd.span<double>(),
                                           dx.span<T>(), false, spec.offset);
      layer_norm_backward_input_ref(dy.span<T>(), x.span<T>(), w.weight.span<T>(), mean.span<double>(),
                                    rstd.span<double>(), dx.span<T>(), false);
    } else {
      if (spec.kind == NormKind::rms)
        return rms_norm_backward_input<T>(dy.span<T>(), x.span<T>(), w.weight.span<T>(), rstd.span<float>(),
                                          dx.span<T>(), false, static_cast<float>(spec.offset));
      layer_norm_backward_input<T>(dy.span<T>(), x.span<T>(), w.weight.span<T>(), mean.span<float>(),
                                   rstd.span<float>(), dx.span<T>(), false);
    }
  });
}

void norm_backward_weight(const NormSpec& spec, const Tensor& dy, const Tensor& x, const Tensor& mean,
                          const Tensor& rstd, const NormWeights& g) {
  if (!spec.present() || g.weight.empty()) return;
  by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>) {
      if (spec.kind == NormKind::rms)
        return rms_norm_backward_weight_ref(dy.span<T>(), x.span<T>(), rstd.span<double>(), g.weight.span<double>());
      layer_norm_backward_weight_ref(dy.span<T>(), x.span<T>(), mean.span<double>(), rstd.span<double>(),
                                     g.weight.span<double>(), span_or_none<double>(g.bias));
    } else {
      if (spec.kind == NormKind::rms)
        return rms_norm_backward_weight<T>(dy.span<T>(), x.span<T>(), rstd.span<float>(), g.weight.span<float>());
      layer_norm_backward_weight<T>(dy.span<T>(), x.span<T>(), mean.span<float>(), rstd.span<float>(),
                                    g.weight.span<float>(), span_or_none<float>(g.bias));
    }
  });
}

namespace {

ClampedGate clamped(const MlpSpec& spec) {
  TERN_CHECK(spec.gated && spec.activation == ActivationKind::silu, "activation: bounds of what is no gated silu");
  return {spec.bounds.alpha, spec.bounds.limit};
}

}  // namespace

void activation(const MlpSpec& spec, const Tensor& up, const Tensor& y) {
  if (spec.bounds.present()) {
    const ClampedGate gate = clamped(spec);
    return by_dtype(up.dtype(), [&]<class T>() {
      if constexpr (kIsRef<T>)
        clamped_gate_ref(gate, spec.hidden, up.span<T>(), y.span<T>());
      else
        clamped_gate<T>(gate, spec.hidden, up.span<T>(), y.span<T>());
    });
  }
  const Activation act = kernel_activation(spec.activation);
  by_dtype(up.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>) {
      if (spec.gated) return gated_activation_ref(act, spec.hidden, up.span<T>(), y.span<T>());
      activation_ref(act, up.span<T>(), y.span<T>());
    } else {
      if (spec.gated) return gated_activation<T>(act, spec.hidden, up.span<T>(), y.span<T>());
      tern::activation<T>(act, up.span<T>(), y.span<T>());
    }
  });
}

void activation_backward(const MlpSpec& spec, const Tensor& up, const Tensor& dy, const Tensor& y, const Tensor& dup) {
  if (spec.bounds.present()) {
    const ClampedGate gate = clamped(spec);
    return by_dtype(up.dtype(), [&]<class T>() {
      const std::span<T> forward = span_or_none<T>(y);
      if constexpr (kIsRef<T>)
        clamped_gate_backward_ref(gate, spec.hidden, up.span<T>(), dy.span<T>(), forward, dup.span<T>());
      else
        clamped_gate_backward<T>(gate, spec.hidden, up.span<T>(), dy.span<T>(), forward, dup.span<T>());
    });
  }
  const Activation act = kernel_activation(spec.activation);
  by_dtype(up.dtype(), [&]<class T>() {
    const std::span<T> forward = y.empty() ? std::span<T>{} : y.span<T>();
    if constexpr (kIsRef<T>) {
      if (spec.gated)
        return gated_activation_backward_ref(act, spec.hidden, up.span<T>(), dy.span<T>(), forward, dup.span<T>());
      activation_backward_ref(act, up.span<T>(), dy.span<T>(), forward, dup.span<T>());
    } else {
      if (spec.gated)
        return gated_activation_backward<T>(act, spec.hidden, up.span<T>(), dy.span<T>(), forward, dup.span<T>());
      tern::activation_backward<T>(act, up.span<T>(), dy.span<T>(), forward, dup.span<T>());
    }
  });
}

void rope(const RopeSpec& spec, const RopeTable& table, std::span<const int32_t> positions, int64_t heads,
          int64_t head_dim, bool inverse, const Tensor& x) {
  if (x.count() == 0) return;
  const RopeShape shape{x.rows(), x.count() / x.rows(), heads, head_dim, spec.rotary_dim};
  by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>)
      rope_ref(shape, positions, table.cos64, table.sin64, inverse, x.span<T>().data());
    else
      tern::rope<T>(shape, positions, table.cos, table.sin, inverse, x.span<T>().data());
  });
}

namespace {

// One row's parts as rows of their own.
struct Parts {
  int64_t rows, stride, width, count;
  template <class T>
  std::span<T> of(const Tensor& t, int64_t row, int64_t offset) const {
    return t.span<T>().subspan(static_cast<size_t>(row * stride + offset), static_cast<size_t>(count));
  }
};
Parts row_parts(const Tensor& x, int64_t groups, int64_t width) {
  const int64_t rows = x.rows();
  return {rows, rows ? x.count() / rows : 0, width, groups * width};
}
// f(r) for every row, on as many threads as the work repays: a decoded token's is done where it is.
template <class F>
void for_rows(const Parts& p, F f) {
  constexpr int64_t kPasses = 4;  // of a norm over its elements, about
  parallel_ranges(p.rows, row_grain(p.count * kPasses), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f(r);
  });
}

}  // namespace

void head_norm(const NormSpec& spec, const NormWeights& w, const Tensor& x, int64_t offset, int64_t groups,
               const Tensor& y, const Tensor& rstd) {
  const Parts p = row_parts(x, groups, w.weight.count());
  by_dtype(x.dtype(), [&]<class T>() {
    using Sum = std::conditional_t<kIsRef<T>, double, float>;
    const std::span<Sum> all = span_or_none<Sum>(rstd);
    const auto num = static_cast<size_t>(groups);
    for_rows(p, [&](int64_t r) {
      const std::span<Sum> kept = all.empty() ? all : all.subspan(static_cast<size_t>(r) * num, num);
      const std::span<const T> from = p.of<T>(x, r, offset), weight = w.weight.span<T>();
      if constexpr (kIsRef<T>)
        rms_norm_ref(from, weight, spec.epsilon, p.of<T>(y, r, offset), kept, spec.offset);
      else
        rms_norm<T>(from, weight, static_cast<float>(spec.epsilon), p.of<T>(y, r, offset), kept,
                    static_cast<float>(spec.offset));
    });
  });
}

void head_norm_backward(const NormSpec& spec, const NormWeights& w, const Tensor& x, int64_t offset, int64_t groups,
                        const Tensor& rstd, const Tensor& d, const Tensor& dw) {
  const Parts p = row_parts(x, groups, w.weight.count());
  by_dtype(x.dtype(), [&]<class T>() {
    using Sum = std::conditional_t<kIsRef<T>, double, float>;
    const auto num = static_cast<size_t>(groups);
    const auto kept = [&](int64_t r) { return rstd.span<Sum>().subspan(static_cast<size_t>(r) * num, num); };
    for (int64_t r = 0; r < p.rows; ++r) {  // rows ascending: the sum's order
      if constexpr (kIsRef<T>)
        rms_norm_backward_weight_ref(p.of<T>(d, r, offset), p.of<T>(x, r, offset), kept(r), dw.span<double>());
      else
        rms_norm_backward_weight<T>(p.of<T>(d, r, offset), p.of<T>(x, r, offset), kept(r), dw.span<float>());
    }
    for_rows(p, [&](int64_t r) {
      const std::span<T> at = p.of<T>(d, r, offset);
      if constexpr (kIsRef<T>)
        rms_norm_backward_input_ref(at, p.of<T>(x, r, offset), w.weight.span<T>(), kept(r), at, false, spec.offset);
      else
        rms_norm_backward_input<T>(at, p.of<T>(x, r, offset), w.weight.span<T>(), kept(r), at, false,
                                   static_cast<float>(spec.offset));
    });
  });
}

void copy(const Tensor& x, const Tensor& y) {
  TERN_CHECK(x.bytes() == y.bytes() && x.dtype() == y.dtype(), "copy: {} bytes to {}", x.bytes(), y.bytes());
  if (x.bytes()) std::memcpy(y.data(), x.data(), static_cast<size_t>(x.bytes()));
}

void scale(double factor, const Tensor& y) {
  by_dtype(y.dtype(), [&]<class T>() { scale_elements<T>(factor, y.span<T>()); });
}

void softcap(double cap, const Tensor& y) {
  if (y.dtype() == DType::f64) return softcap_elements<double>(cap, y.span<double>());
  softcap_elements<float>(cap, y.span<float>());
}

void softcap_backward(double cap, const Tensor& y, const Tensor& d) {
  if (y.dtype() == DType::f64) return softcap_gradients<double>(cap, y.span<double>(), d.span<double>());
  softcap_gradients<float>(cap, y.span<float>(), d.span<float>());
}

void add(const Tensor& x, const Tensor& y) {
  by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>)
      add_ref(x.span<T>(), y.span<T>());
    else
      tern::add<T>(x.span<T>(), y.span<T>());
  });
}

void add_gradient(const Tensor& x, const Tensor& dw) {
  if (!dw.empty()) add(x, dw);
}

// Calls f(row of the wide tensor at the column, row of the narrow one, n) for every row: n elements of the narrow one, `repeat` times
// as many of the wide one.
template <class T, class F>
static void for_columns(const Tensor& wide, int64_t column, const Tensor& narrow, F&& f, int64_t repeat = 1) {
  const int64_t rows = narrow.rows(), n = rows ? narrow.count() / rows : 0, stride = rows ? wide.count() / rows : 0;
  TERN_CHECK(column + n * repeat <= stride, "columns {} to {} of {}", column, column + n * repeat, stride);
  T* const of_wide = wide.span<T>().data() + column;
  T* const of_narrow = narrow.span<T>().data();
  parallel_ranges(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(n, 1)), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f(of_wide + r * stride, of_narrow + r * n, n);
  });
}

void copy_columns(const Tensor& x, int64_t column, const Tensor& y) {
  by_dtype(x.dtype(), [&]<class T>() {
    for_columns<T>(x, column, y, [](const T* from, T* to, int64_t n) { std::copy_n(from, n, to); });
  });
}

void put_columns(const Tensor& x, const Tensor& y, int64_t column) {
  by_dtype(x.dtype(), [&]<class T>() {
    for_columns<T>(y, column, x, [](T* to, const T* from, int64_t n) { std::copy_n(from, n, to); });
  });
}

void add_columns(double factor, const Tensor& x, const Tensor& y, int64_t column) {
  by_dtype(x.dtype(), [&]<class T>() {
    for_columns<T>(y, column, x, [&](T* to, const T* from, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_same_v<T, bf16>)
          to[i] = to_bf16(to_float(to[i]) + static_cast<float>(factor) * to_float(from[i]));
        else
          to[i] += static_cast<T>(factor) * from[i];
      }
    });
  });
}

namespace {

template <class T>
auto wide(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_float(x);
  else
    return x;
}
template <class T, class Wide>
T narrow(Wide x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(x);
  else
    return x;
}

}  // namespace

void add_repeated_columns(double factor, const Tensor& x, int64_t repeat, const Tensor& y, int64_t column) {
  by_dtype(x.dtype(), [&]<class T>() {
    const auto add = [&](T* to, const T* from, int64_t n) {
      for (int64_t j = 0; j < n; ++j) {
        const auto more = static_cast<decltype(wide(from[j]))>(factor) * wide(from[j]);
        for (int64_t i = j * repeat; i < (j + 1) * repeat; ++i) to[i] = narrow<T>(wide(to[i]) + more);
      }
    };
    for_columns<T>(y, column, x, add, repeat);
  });
}

void sum_columns(const Tensor& x, int64_t column, int64_t repeat, const Tensor& y) {
  by_dtype(x.dtype(), [&]<class T>() {
    const auto sum = [&](const T* from, T* to, int64_t n) {
      for (int64_t j = 0; j < n; ++j) {
        auto total = wide(from[j * repeat]);
        for (int64_t i = 1; i < repeat; ++i) total += wide(from[j * repeat + i]);
        to[j] = narrow<T>(total);
      }
    };
    for_columns<T>(x, column, y, sum, repeat);
  });
}

void pool_columns(const Tensor& x, int64_t pool, const Tensor& y) {
  TERN_CHECK(x.count() == y.count() * pool, "pool_columns: {} numbers, {} groups of {}", x.count(), y.count(), pool);
  by_dtype(x.dtype(), [&]<class T>() {
    const T* from = x.span<T>().data();
    T* to = y.span<T>().data();
    parallel_ranges(y.count(), row_grain(pool), 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        auto sum = wide(from[g * pool]);
        for (int64_t i = 1; i < pool; ++i) sum += wide(from[g * pool + i]);
        to[g] = narrow<T>(sum / static_cast<decltype(sum)>(pool));
      }
    });
  });
}

void scale_columns(const Tensor& factors, const Tensor& bias, const Tensor& y, int64_t column) {
  const std::span<const double> f = factors.span<double>();
  const auto n = static_cast<int64_t>(f.size());
  by_dtype(y.dtype(), [&]<class T>() {
    const std::span<const T> b = span_or_none<T>(bias);
    TERN_CHECK(b.empty() || b.size() == f.size(), "scale_columns: {} factors, a bias of {}", f.size(), b.size());
    const int64_t stride = y.count() / y.rows();
    TERN_CHECK(column + n <= stride, "columns {} to {} of {}", column, column + n, stride);
    T* const to = y.span<T>().data() + column;
    parallel_ranges(y.rows(), row_grain(n), 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t i = 0; i < n; ++i) {
          if (f[static_cast<size_t>(i)] == 1) continue;  // also where y - bias is not exact
          T& x = to[r * stride + i];
          const double at = b.empty() ? 0 : static_cast<double>(wide(b[static_cast<size_t>(i)]));
          x = number_as<T>(at + f[static_cast<size_t>(i)] * (static_cast<double>(wide(x)) - at));
        }
    });
  });
}

// Four numbers of a block of random ones: as many neighbours are left out by one of them.
void drop(double share, RngKey key, int64_t step, int64_t first_row, const Tensor& x) {
  const int64_t n = x.count() / x.rows();
  const auto least = static_cast<uint32_t>(std::min(share * 0x1p32, 0x1p32 - 1));
  const double rest = 1 / (1 - share);
  const uint64_t stream = hash_name(std::to_string(step), key.stream);
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  by_dtype(x.dtype(), [&]<class T>() {
    T* const to = x.span<T>().data();
    parallel_ranges(x.rows(), row_grain(n), 1, [&](int64_t begin, int64_t end) {
      Philox4 random{};
      uint64_t block = ~uint64_t{0};
      for (int64_t i = begin * n; i < end * n; ++i) {
        const uint64_t place = static_cast<uint64_t>(first_row * n + i);
        if (place / 4 != block) {
          block = place / 4;
          random = philox({low(block), high(block), low(stream), high(stream)}, {low(key.seed), high(key.seed)});
        }
        to[i] = random[place % 4] < least ? T{} : number_as<T>(rest * static_cast<double>(wide(to[i])));
      }
    });
  });
}

void add_pooled_gradient(const Tensor& y, int64_t pool, const Tensor& x) {
  TERN_CHECK(x.count() == y.count() * pool, "add_pooled_gradient: {} numbers, {} groups of {}", x.count(), y.count(),
             pool);
  by_dtype(x.dtype(), [&]<class T>() {
    const T* from = y.span<T>().data();
    T* to = x.span<T>().data();
    parallel_ranges(y.count(), row_grain(pool), 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        const auto share = wide(from[g]) / static_cast<decltype(wide(from[g]))>(pool);
        for (int64_t i = 0; i < pool; ++i) to[g * pool + i] = narrow<T>(wide(to[g * pool + i]) + share);
      }
    });
  });
}

void add_and_clear(const Tensor& x, const Tensor& y) {
  if (x.dtype() == DType::f32) return tern::add_and_clear(x.span<float>(), y.span<float>());
  add(x, y);
  x.fill_zero();
}

void gather_rows(const Tensor& table, std::span<const int32_t> ids, const Tensor& y) {
  by_dtype(y.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>)
      gather_rows_ref(table.span<T>(), table.shape()[1], ids, y.span<T>());
    else
      tern::gather_rows<T>(table.span<T>(), table.shape()[1], ids, y.span<T>());
  });
}

std::vector<CodedRows> coded_rows(const CodedWeight& w) {
  std::vector<CodedRows> rows;
  for (const CodedPiece& piece : w.pieces)
    rows.push_back({piece.type, static_cast<const uint8_t*>(piece.bytes.data()), piece.rows, piece.head_dim,
                    piece.tables ? piece.tables->data() : nullptr});
  return rows;
}

void gather_coded_rows(const CodedWeight& table, std::span<const int32_t> ids, const Tensor& y) {
  TERN_CHECK(table.pieces.size() == 1, "gather_coded_rows: a table of {} pieces", table.pieces.size());
  by_dtype(y.dtype(), [&]<class T>() {
    TERN_CHECK(!kIsRef<T>, "gather_coded_rows: f64 has no coded weights");
    if constexpr (!kIsRef<T>) tern::gather_coded_rows<T>(coded_rows(table).front(), y.shape()[1], ids, y.span<T>());
  });
}

Tensor decoded_rows(const CodedPiece& piece, int64_t in, DType dtype, MemoryClass kind, Arena& arena) {
  Tensor rows = arena.allocate(dtype, {piece.rows, in}, kind);
  std::vector<int32_t> each(static_cast<size_t>(piece.rows));
  std::iota(each.begin(), each.end(), 0);
  gather_coded_rows({{piece}}, each, rows);
  return rows;
}

void decode_rows(const CodedWeight& weight, const Tensor& rows) {
  const int64_t in = rows.count() / rows.rows();
  int64_t begin = 0;
  for (const CodedRows& piece : coded_rows(weight)) {
    std::vector<int32_t> each(static_cast<size_t>(piece.count));
    std::iota(each.begin(), each.end(), 0);
    const Tensor to = rows.rows_view(begin, begin + piece.count);
    begin += piece.count;
    by_dtype(rows.dtype(), [&]<class T>() {
      if constexpr (kIsRef<T>) {
        std::vector<float> numbers(to.span<T>().size());
        tern::gather_coded_rows<float>(piece, in, each, numbers);
        std::ranges::copy(numbers, to.span<T>().begin());
      } else {
        tern::gather_coded_rows<T>(piece, in, each, to.span<T>());
      }
    });
  }
}

void gather_rows_add(const Tensor& table, std::span<const int32_t> ids, const Tensor& y) {
  by_dtype(y.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>)
      gather_rows_add_ref(table.span<T>(), table.shape()[1], ids, y.span<T>());
    else
      tern::gather_rows_add<T>(table.span<T>(), table.shape()[1], ids, y.span<T>());
  });
}

void scatter_rows_add(const Tensor& dy, std::span<const int32_t> ids, const Tensor& dtable) {
  by_dtype(dy.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>)
      scatter_rows_add_ref(dy.span<T>(), dtable.shape()[1], ids, dtable.span<double>());
    else
      tern::scatter_rows_add<T>(dy.span<T>(), dtable.shape()[1], ids, dtable.span<float>());
  });
}

void bias_backward(const Tensor& dy, const Tensor& db) {
  by_dtype(dy.dtype(), [&]<class T>() {
    if constexpr (kIsRef<T>)
      bias_backward_ref(dy.span<T>(), db.span<double>());
    else
      tern::bias_backward<T>(dy.span<T>(), db.span<float>());
  });
}

void round_to(const Tensor& x, const Tensor& y) { convert<float, bf16>(x.span<float>(), y.span<bf16>()); }

void cross_entropy_forward_backward(std::span<const int32_t> targets, double scale, const Tensor& logits,
                                    const Tensor& losses) {
  const int64_t vocab = logits.shape()[1];
  if (logits.dtype() == DType::f64)
    cross_entropy_forward_backward_ref(vocab, targets, {}, scale, logits.span<double>(), losses.span<double>());
  else
    tern::cross_entropy_forward_backward(vocab, targets, {}, static_cast<float>(scale), logits.span<float>(),
                                         losses.span<float>());
}

void cross_entropy(std::span<const int32_t> targets, const Tensor& logits, const Tensor& losses) {
  const int64_t vocab = logits.shape()[1];
  if (logits.dtype() == DType::f64)
    cross_entropy_ref(vocab, targets, logits.span<double>(), losses.span<double>());
  else
    tern::cross_entropy(vocab, targets, logits.span<float>(), losses.span<float>());
}

}  // namespace tern::ops
