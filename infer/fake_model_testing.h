#pragma once
// Tests only: a model without weights.

#include <string>
#include <vector>

#include "base/rng.h"
#include "infer/session.h"

namespace tern {

inline constexpr int32_t kFakeVocab = 40;
inline const KvShape kFakeShape{.layers = 1, .kv_heads = 1, .head_dim = 1, .page_tokens = 4, .dtype = DType::f32};

// A stand-in for a model that really lives on the KV pages: it writes each token to its place, then draws logits from a
// hash over everything its pages hold up to there. A wrong page, position or copy changes what it says.
inline std::vector<std::vector<float>> fake_model(const Batch& batch, const KvPool& pool) {
  std::vector<std::vector<float>> logits;
  for (const Work& work : batch) {
    const KvView view = pool.view({&work.sequence->kv});
    const auto keys = Tensor(view.keys[0]).span<float>();
    const auto slot = [&](int64_t position) -> float& {
      const auto page = static_cast<int64_t>(view.pages[0][static_cast<size_t>(position / view.page_tokens)]);
      return keys[static_cast<size_t>(page * view.page_tokens + position % view.page_tokens)];
    };
    for (int64_t i = work.begin; i < work.begin + work.count; ++i)
      slot(i) = static_cast<float>(work.sequence->tokens[static_cast<size_t>(i)]);
    if (!work.wants_logits) continue;
    uint64_t hash = 1469598103934665603ull;
    for (int64_t i = 0; i < work.begin + work.count; ++i)
      hash = (hash ^ static_cast<uint64_t>(slot(i))) * 1099511628211ull;
    std::vector<float> row(kFakeVocab);
    for (int32_t v = 0; v < kFakeVocab; ++v)
      row[static_cast<size_t>(v)] = static_cast<float>(random_normal({hash, 1}, static_cast<uint64_t>(v)));
    logits.push_back(row);
  }
  return logits;
}

}  // namespace tern
