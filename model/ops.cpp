#include "model/ops.h"

#include <algorithm>
#include <cstring>
#include <numeric>
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
