#pragma once
// The request for an inference plan: prompts and answers, users, targets, and the types in which weights, keys and
// values are kept. Values only.

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/dtype.h"
#include "base/kv_type.h"
#include "plan/request_lengths.h"
#include "spec/model_spec.h"

namespace tern {

/// How weights are kept. q8, q4: blocks of 32 numbers with a 16-bit scale, 8.5 and 4.5 bits per number. bf16 also means f16.
enum class StoredType : uint8_t { f32, bf16, q8, q4 };
std::string_view name_of(StoredType);
/// Bytes of `numbers` numbers.
int64_t stored_bytes(StoredType, int64_t numbers);
/// The type that keeps weights without conversion from the type of computing; f16 counts as bf16, f64 as f32.
StoredType stored_as(DType);
/// The type of a cache that keeps keys and values unconverted; f16 counts as bf16, f64 as f32.
KvType kv_kept_as(DType);

/// The request: prompts and answers, users and targets.
struct InferenceJob {
  int64_t prompt = 2048, answer = 256;  // tokens of a request
  int64_t users = 0;                    // sequences at once; 0: as many as there is room and time for
  DType dtype = DType::bf16;            // of the computation
  StoredType weights = StoredType::bf16;
  KvType kv = KvType::bf16;
  double ttft_s = 0, tpot_s = 0;               // targets: to the first token, per token after it; 0: none
  int64_t chunk = 512;                         // prompt tokens per pass
  int64_t page = 16;                           // tokens in a page of the cache
  bool mapped_weights = false;                 // weights are read from a mapped file's pages, not copied
  bool spill = true;                           // weights, keys and values may go to the host and to disk
  bool latent_cache = true;                    // latent attention caches its narrow rows; false: whole heads
  int64_t most_tensor = 64, most_stages = 16;  // limits of one copy's layout
  /// Requests of unlike length; `prompt` and `answer` are then the longest. nullptr: every request has those two lengths.
  std::shared_ptr<const RequestLengths> lengths = {};
  int64_t context() const { return prompt + answer; }
  double mean_prompt() const { return lengths ? lengths->prompts().mean() : static_cast<double>(prompt); }
  double mean_answer() const { return lengths ? lengths->answers().mean() : static_cast<double>(answer); }
  int64_t high_prompt() const { return lengths ? lengths->high_prompt() : prompt; }  // 99 of 100 do not exceed it
};

/// Numbers of keys and values that one of `tensor` ranks keeps per token, over all layers.
int64_t kv_numbers_per_token(const ModelSpec&, bool latent_cache, int64_t tensor = 1);
/// Bytes per token of one unit's keys and values: each head's numbers are a row of kv_row_bytes bytes; a latent row
/// counts as one such row.
int64_t kv_bytes_per_token(const Unit&, const InferenceJob&, int64_t tensor = 1);

}  // namespace tern
