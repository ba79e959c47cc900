#include "model/pack_weights.h"

#include <type_traits>

#include "base/error.h"
#include "kernels/cpu/matmul.h"
#include "model/ops.h"
#include "model/visit_weights.h"
#include "tensor/bytes_of.h"

namespace tern {

PackedWeight packed_weight(const Linear& linear, std::span<const Tensor> pieces, Arena& arena) {
  const DType dtype = pieces.front().dtype();
  const Tensor packed = arena.bytes(packed_bytes(dtype, linear.out, linear.in), MemoryClass::weights);
  const std::span<std::byte> to = bytes_of(packed);
  ops::by_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const std::vector<WeightRows<T>> rows = ops::weight_rows<T>(pieces);
      pack_weight<T>(std::span<const WeightRows<T>>(rows), linear.out, linear.in, to);
    }
  });
  return {packed};
}

void pack_weights(const ModelSpec& spec, ModelWeights& weights, Arena& arena) {
  const DType dtype = embed_of(weights).tokens.dtype();
  if (dtype == DType::f64 || reads_plain_weights(dtype)) return;
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) {
    if (!std::holds_alternative<DenseWeight>(linear.weight)) return;
    const Tensor& rows = dense_rows(linear);
    TERN_CHECK(!rows.empty(), "pack_weights: linear ({}, {}) has no weight", linear.out, linear.in);
    linear.weight = packed_weight(linear, {&rows, 1}, arena);
  });
  TERN_CHECK(!spec.head().tied || !embed_of(weights).tokens.empty(), "pack_weights: the embedding table stays plain");
}

}  // namespace tern
