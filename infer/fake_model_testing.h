#pragma once
// Tests only: a model without weights.

#include <memory>
#include <vector>

#include "base/rng.h"
#include "infer/executor.h"

namespace tern {

inline constexpr int32_t kFakeVocab = 40;
inline const KvShape kFakeShape{.layers = {{1, 1}}, .page_tokens = 4, .type = KvType::f32};

// An executor without weights that uses the KV pages like a model: it writes each token to its page, and makes logits of a hash over all that the pages hold
// up to there. So a wrong page, position or copy changes its logits.
inline Tensor fake_model(const Batch& batch, const KvPool& pool) {
  const auto logits = std::make_shared<std::vector<float>>();
  for (const Work& work : batch) {
    const KvPages* one = &work.sequence->kv;
    const KvView view = pool.view({&one, 1});
    const auto keys = view.keys[0].span<float>();
    const auto slot = [&](int64_t position) -> float& {
      const auto page = static_cast<int64_t>(view.pages[static_cast<size_t>(position / view.page_tokens)]);
      return keys[static_cast<size_t>(page * view.page_tokens + position % view.page_tokens)];
    };
    for (int64_t i = work.begin; i < work.begin + work.count; ++i)
      slot(i) = static_cast<float>(work.sequence->tokens[static_cast<size_t>(i)]);
    if (!work.wants_logits) continue;
    const int64_t end = work.begin + work.count;
    uint64_t hash = 1469598103934665603ull;
    for (int64_t i = 0; i < end; ++i) {
      hash = (hash ^ static_cast<uint64_t>(slot(i))) * 1099511628211ull;
      if (i < end - 1 - work.guesses) continue;
      for (int32_t v = 0; v < kFakeVocab; ++v)
        logits->push_back(static_cast<float>(random_normal({hash, 1}, static_cast<uint64_t>(v))));
    }
  }
  const auto rows = static_cast<int64_t>(logits->size()) / kFakeVocab;
  return Tensor::borrow(DType::f32, {rows, kFakeVocab}, logits->data(), logits);
}

}  // namespace tern
