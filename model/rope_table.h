#pragma once
// Rotary tables for every scaling rule, computed in f64 and then rounded to f32.
// Sources: Su et al. 2021 (2104.09864); linear: Chen et al. 2023 (2306.15595); dynamic NTK, YaRN: Peng et al. 2023
// (2309.00071); llama3: Meta 2024; longrope: Ding et al. 2024 (2402.13753); details as in transformers' rope utilities.

#include <vector>

#include "spec/model_spec.h"

namespace tern {

struct RopeTable {
  int64_t num_positions = 0;
  std::vector<float> cos, sin;       // (num_positions, rotary_dim/2), attention factor included
  std::vector<double> cos64, sin64;  // the same before rounding, for f64
  std::vector<RopeTable> local;      // a second table, where layers with a window have frequencies of their own
};
/// The angle in radians by which each pair turns per position, and the factor on cos and sin.
struct RopeFrequencies {
  std::vector<double> per_position;  // (rotary_dim/2)
  double attention_factor = 1.0;
};
RopeFrequencies rope_frequencies(const RopeSpec&, int64_t declared_context);

/// Memory: 12·num_positions·rotary_dim bytes; ask for the positions in use, not for all that the model allows.
/// `declared_context`: the length by which the dynamic and longrope rules choose their factors; it must stay the same for the
/// whole life of a sequence.
RopeTable rope_table(const RopeSpec&, int64_t num_positions, int64_t declared_context);
/// The table of a model, with `local` where its layers need it.
RopeTable rope_table(const ModelSpec&, int64_t num_positions, int64_t declared_context);
/// Bytes of such a table, which no arena counts.
int64_t rope_table_bytes(const ModelSpec&, int64_t num_positions);

}  // namespace tern
