#include "model/compare_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

template <class T>
double as_double(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_float(x);
  else
    return x;
}

}  // namespace

WeightsDifference compare_weights(const ModelSpec& spec, const ModelWeights& a, const ModelWeights& b) {
  WeightsDifference d;
  ModelWeights first = a, second = b;  // the visitor hands out places; storage is shared
  std::vector<Tensor*> one = tensors(spec, first), other = tensors(spec, second);
  for_each_fixed(spec, first, [&](const ParameterInfo&, Tensor& t) { one.push_back(&t); });
  for_each_fixed(spec, second, [&](const ParameterInfo&, Tensor& t) { other.push_back(&t); });
  for (size_t i = 0; i < one.size(); ++i) {
    const Tensor &x = *one[i], &y = *other[i];
    TERN_CHECK(!x.empty() && x.dtype() == y.dtype() && x.bytes() == y.bytes(), "compare_weights: tensor {}", i);
    ops::by_dtype(x.dtype(), [&]<class T>() {
      const auto p = x.span<T>(), q = y.span<T>();
      d.num_elements += static_cast<int64_t>(p.size());
      for (size_t k = 0; k < p.size(); ++k) {
        d.largest_value = std::max(d.largest_value, std::abs(as_double(p[k])));
        if (std::memcmp(&p[k], &q[k], sizeof(T)) == 0) continue;
        ++d.num_different;
        const double gap = std::abs(as_double(p[k]) - as_double(q[k]));
        d.largest = std::max(d.largest, std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap);
      }
    });
  }
  return d;
}

}  // namespace tern
