#pragma once
// The numbers that a new model and new adapters begin with.

#include <cstdint>
#include <string_view>

#include "model/weights.h"

namespace tern {

/// Weights from scratch, by Hugging Face's rule: N(0, initializer_range) for matrices and embeddings, 0 for biases.
/// The weights of norms are 1 − offset (NormSpec::offset), so that y = x̂. GPT-2's residual projections are scaled by 1/sqrt(2·layers).
/// Random numbers are keyed by (seed, name, element), so they are the same for every dtype up to rounding.
void initialize_weights(const ModelSpec&, ModelWeights&, uint64_t seed);
/// How a new adapter begins: A as below; B with zeros, except in the last three, which set B too.
enum class AdapterInit : uint8_t {
  kaiming,     // uniform within ±1/√in, as LoRA applies Kaiming's rule; PEFT's init_lora_weights = true
  gaussian,    // normal, deviation 1/rank
  orthogonal,  // A and B mix different halves of a random orthogonal basis of size rank, with random numbers:
               // B·A = 0 up to rounding
  pissa,       // A, B: the weight's leading singular directions; subtracted from the weight (model/taken_factors.h)
  olora,       // A: first rows of r, B: first columns of q, where q·r is the weight; subtracted from the weight
};
/// The name of an AdapterInit in options and settings files; kaiming's is "true", as in PEFT.
std::string_view name_of(AdapterInit);
/// Fills new adapters so that they change nothing yet. Keyed as above. pissa, olora: as kaiming, until take_factors sets A and B.
/// Errors  usage: an odd rank for `orthogonal`. bad_file: `orthogonal` without LAPACK.
void initialize_adapters(const ModelSpec&, ModelWeights&, uint64_t seed, AdapterInit = AdapterInit::kaiming);

}  // namespace tern
