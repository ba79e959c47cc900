#include "plan/inference_job.h"

#include "base/rounding.h"

namespace tern {
namespace {

int64_t kv_numbers(const Unit& unit, bool latent_cache, int64_t tensor) {
  const AttentionSpec* a = attention_of(unit);
  if (!a || a->cross) return 0;
  if (a->latent.present() && latent_cache) return a->latent.kv_rank + a->latent.rotary;
  return ceil_div(a->kv_heads, tensor) * (2 * a->head_dim);
}

}  // namespace

std::string_view name_of(StoredType t) {
  constexpr std::string_view names[]{"f32", "bf16", "q8", "q4"};
  return names[static_cast<size_t>(t)];
}

int64_t stored_bytes(StoredType t, int64_t numbers) {
  if (t == StoredType::f32) return 4 * numbers;
  if (t == StoredType::bf16) return 2 * numbers;
  return ceil_div(numbers, 32) * (t == StoredType::q8 ? 34 : 18);
}

StoredType stored_as(DType dtype) { return size_of(dtype) == 2 ? StoredType::bf16 : StoredType::f32; }

KvType kv_kept_as(DType dtype) { return size_of(dtype) == 2 ? KvType::bf16 : KvType::f32; }

int64_t kv_numbers_per_token(const ModelSpec& spec, bool latent_cache, int64_t tensor) {
  int64_t numbers = 0;
  for (const Unit& unit : spec.units) numbers += kv_numbers(unit, latent_cache, tensor);
  return numbers;
}

int64_t kv_bytes_per_token(const Unit& unit, const InferenceJob& job, int64_t tensor) {
  const AttentionSpec* a = attention_of(unit);
  if (!a || a->cross) return 0;
  if (a->latent.present() && job.latent_cache) return kv_row_bytes(job.kv, a->latent.kv_rank + a->latent.rotary);
  return ceil_div(a->kv_heads, tensor) * 2 * kv_row_bytes(job.kv, a->head_dim);
}

}  // namespace tern
