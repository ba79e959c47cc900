#include "kernels/cpu/cross_entropy.h"

#include "base/error.h"
#include "kernels/cpu/cross_entropy_table.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const CrossEntropyTable& table() {
  const Isa isa = active_isa();
  return TERN_TABLE_OF(cross_entropy_table, isa);
}

void check(int64_t vocab, std::span<const int32_t> targets, size_t logits, size_t losses) {
  TERN_CHECK(vocab > 0 && logits == targets.size() * static_cast<size_t>(vocab) && losses == targets.size(),
             "cross_entropy: {} logits, {} losses for {} rows of {}", logits, losses, targets.size(), vocab);
  for (const int32_t t : targets) TERN_CHECK(t < vocab, "cross_entropy: target {} in a vocabulary of {}", t, vocab);
}

}  // namespace

void cross_entropy_forward_backward(int64_t vocab, std::span<const int32_t> targets, std::span<const float> weights,
                                    float scale, std::span<float> logits, std::span<float> losses) {
  check(vocab, targets, logits.size(), losses.size());
  TERN_CHECK(weights.empty() || weights.size() == targets.size(), "cross_entropy: {} weights for {} rows",
             weights.size(), targets.size());
  table().forward_backward(vocab, static_cast<int64_t>(targets.size()), targets.data(),
                           weights.empty() ? nullptr : weights.data(), scale, logits.data(), losses.data());
}

void cross_entropy(int64_t vocab, std::span<const int32_t> targets, std::span<const float> logits,
                   std::span<float> losses) {
  check(vocab, targets, logits.size(), losses.size());
  table().losses(vocab, static_cast<int64_t>(targets.size()), targets.data(), logits.data(), losses.data());
}

}  // namespace tern
