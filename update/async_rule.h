#pragma once
// Asynchronous updates: a server has weights w and a momentum u. It receives the gradients of K workers one by one; each was computed
// at weights that the server had some receipts ago. What the server does on a receipt is computed here. It depends on the rule, two
// counters, the gradient's index and the learning rate, and on nothing else in a run.

#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace tern {

/// What happens at every receipt. asgd: w -= ηg. momentum: u = βu + ηg, w -= u. ormo: ordered momentum, see take_receipt. ormo_da:
/// ormo with the rate η·min(1, 2K/τ), where τ is the gradient's delay in receipts.
enum class AsyncRule : uint8_t { asgd, momentum, ormo, ormo_da };
inline constexpr std::string_view kAsyncRuleNames[] = {"asgd", "momentum", "ormo", "ormo-da"};

struct AsyncConfig {
  AsyncRule rule = AsyncRule::ormo;
  double momentum = 0.9;  // β
  int workers = 1;        // K
};

/// The server's counters.
struct AsyncClock {
  int64_t receipts = 0;  // t
  int64_t bucket = 0;    // b
  friend bool operator==(const AsyncClock&, const AsyncClock&) = default;
};

/// What a receipt does to each element, with β = `momentum`. If `turns`: u = βu, then w -= u. In any case then:
/// u += into_momentum·g, w -= into_weights·g.
struct AsyncStep {
  bool turns = false;
  double momentum = 0, into_momentum = 0, into_weights = 0;
  int64_t delay = 0;  // τ: the receipts between sending the weights and this receipt
};

/// Advances the clock by one gradient, and returns what its receipt does. `index`: the number of receipts before the server sent the
/// weights at which the gradient was computed (0 for the first weights of every worker). `rate`: η.
/// OrMo    A gradient belongs to bucket ⌈index/K⌉, so each K consecutive indices make a bucket. The first gradient of a new bucket makes
///         one momentum step (`turns`). A gradient that comes d buckets late has the effect that it would have had in time:
///         u += β^d ηg, w -= (1 + β + … + β^d) ηg. So the result depends on which gradients came, not on their order. If buckets
///         are filled one after the other, the result is synchronous momentum.
/// Errors  TERN_CHECK: weights of this index were not sent yet; the gradient would open two buckets at once.
/// Source  Shi, Yang & Li 2024, arXiv:2407.19234 (text not seen: reconstructed and tested). The factor of ormo_da is ours; the paper has
///         the rate min(η, 1/(4Lτ)) for τ > 2K (recalled).
AsyncStep take_receipt(const AsyncConfig&, AsyncClock&, int64_t index, double rate);

/// Applies the step to a parameter. u: empty if the rule has no momentum. The tensors are all f32, or all f64.
void apply_receipt(const AsyncStep&, const Tensor& g, const Tensor& w, const Tensor& u);

}  // namespace tern
