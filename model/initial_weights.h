#pragma once
// The numbers that a new model and new adapters begin with.

#include <cstdint>
#include <string_view>

#include "model/weights.h"

namespace tern {

/// Weights from scratch, by Hugging Face's rule: N(0, initializer_range) for matrices and embeddings, 0 for biases; norms begin
/// as x̂; GPT-2's residual projections are scaled by 1/sqrt(2·layers). Keyed by (seed, name, element): the same for any dtype
/// up to rounding.
void initialize_weights(const ModelSpec&, ModelWeights&, uint64_t seed);
/// How A of a new adapter begins; B begins with zeros but for the last three.
enum class AdapterInit : uint8_t {
  kaiming,     // uniform within ±1/√in, as LoRA applies Kaiming's rule; PEFT's init_lora_weights = true
  gaussian,    // normal, deviation 1/rank
  orthogonal,  // random in half of the directions of a random orthogonal basis of size rank, B in the other half:
               // B·A = 0 but for rounding
  pissa,       // and B: the weight's leading singular directions, which the weight loses (model/taken_factors.h)
  olora,       // and B: the first columns and rows of the weight's orthogonal factors, which the weight loses
};
/// The name that options and files of settings have for it; that of kaiming is "true", as in PEFT.
std::string_view name_of(AdapterInit);
/// New adapters, which change nothing yet. Keyed as above. pissa, olora: as kaiming; take_factors then sets them.
/// Errors  usage: an odd rank for `orthogonal`. bad_file: no LAPACK for it.
void initialize_adapters(const ModelSpec&, ModelWeights&, uint64_t seed, AdapterInit = AdapterInit::kaiming);

}  // namespace tern
