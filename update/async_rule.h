#pragma once
// Asynchronous updates: a server has weights w and a momentum u and receives the gradients of K workers one by one, each
// computed at weights that the server had some receipts ago. What a receipt does is computed here from two counters; nothing
// else in a run decides it.

#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace tern {

/// At every receipt, asgd: w -= ηg; momentum: u = βu + ηg, w -= u; ormo: ordered momentum, see take_receipt; ormo_da: ormo with
/// η·min(1, 2K/τ) in place of η, τ the gradient's delay in receipts.
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

/// What a receipt does, element by element, with β = `momentum`: if `turns`, w -= βu and u = βu; then u += into_momentum·g, w
/// -= into_weights·g.
struct AsyncStep {
  bool turns = false;
  double momentum = 0, into_momentum = 0, into_weights = 0;
  int64_t delay = 0;  // τ: receipts since the weights were sent
};

/// Advances the clock by one gradient and returns what its receipt does. The gradient was computed at the weights that were
/// sent with `index`, the number of receipts before they were sent (0 for the first weights of every worker); `rate` is η.
/// OrMo K receipts of consecutive indices make a bucket, b_g = ⌈index/K⌉. A gradient of a new bucket turns the momentum
///       once; one that belongs d buckets back enters as if it had come then: u += β^d ηg, w -= (1 + β + … + β^d) ηg. So the
///       result depends on which gradients came, not on their order, and buckets that are filled one after the other are
///       synchronous momentum.
/// Errors  TERN_CHECK: an index that was not sent yet; a gradient that would open two buckets at once.
/// Source  Shi, Yang & Li 2024, arXiv:2407.19234 (text not seen: reconstructed and tested); ormo_da's factor is ours where the paper has
///       min(η, 1/(4Lτ)) for τ > 2K (recalled).
AsyncStep take_receipt(const AsyncConfig&, AsyncClock&, int64_t index, double rate);

/// Applies the step to a parameter. u: empty where the rule keeps none. All tensors are f32, or all f64.
void apply_receipt(const AsyncStep&, const Tensor& g, const Tensor& w, const Tensor& u);

}  // namespace tern
