#include "model/sinks.h"

#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/attention_sinks.h"
#include "model/context_ranks.h"
#include "model/ops.h"

namespace tern {
namespace {

// The first of the heads that this rank computes, among those of `u`.
int64_t first_own_head(const AttentionSpec& u, const Compute& c) {
  return swaps_heads(c) ? heads_of_context(u, c).heads * c.context->comm.rank() : 0;
}

// All heads' sinks in the type of statistics.
template <class T, class S>
std::vector<S> wide_sinks(const AttentionSpec& u, const Tensor& sinks) {
  TERN_CHECK(sinks.count() == u.heads, "attention: {} sinks of {} heads", sinks.count(), u.heads);
  std::vector<S> wide;
  for (const T x : sinks.span<T>()) {
    if constexpr (std::is_same_v<T, bf16>)
      wide.push_back(to_float(x));
    else
      wide.push_back(x);
  }
  return wide;
}

}  // namespace

void take_sinks(const AttentionSpec& u, const Tensor& sinks, const Tensor& context, const Tensor& lse,
                const Compute& c) {
  const int64_t heads = heads_of_context(u, c).heads;
  ops::by_dtype(context.dtype(), [&]<class T>() {
    using S = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const std::vector<S> wide = wide_sinks<T, S>(u, sinks);
    apply_sinks<T, S>(wide.data() + first_own_head(u, c), context.rows(), heads, u.head_dim, heads * u.head_dim,
                      context.span<T>().data(), lse.span<S>().data());
  });
}

void add_sinks_gradient(const AttentionSpec& u, const Tensor& sinks, const Tensor& context, const Tensor& dcontext,
                        const Tensor& lse, const Tensor& dsinks, const Compute& c) {
  const int64_t heads = heads_of_context(u, c).heads, first = first_own_head(u, c);
  ops::by_dtype(context.dtype(), [&]<class T>() {
    using S = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const std::vector<S> wide = wide_sinks<T, S>(u, sinks);
    sinks_backward<T, S>(wide.data() + first, context.rows(), heads, u.head_dim, heads * u.head_dim,
                         context.span<T>().data(), dcontext.span<T>().data(), lse.span<S>().data(),
                         dsinks.span<S>().data() + first);
  });
}

}  // namespace tern
