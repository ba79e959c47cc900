#pragma once
// Adapters that begin with a part of the weight, which is subtracted from the weight: w = (w - s·B₀·A₀) + s·B₀·A₀. The
// model's files keep w. Relative to w, such an adapter adds s·(B·A - B₀·A₀): it is an ordinary adapter of twice the rank.

#include <string>

#include "formats/peft/config.h"
#include "model/initial_weights.h"
#include "model/weights.h"

namespace tern {

/// Whether adapters with this init begin with factors of the weight: pissa, olora.
bool takes_factors(AdapterInit);

/// For each branch of `weights`: sets A and B to factors of the rows w beside which the branch stands, then subtracts
/// s·B·A from w. w is dense. pissa: the `rank` leading singular directions, √(σ/s) on each side. olora: of the thin
/// factors w = q·r, B the first `rank` columns of q, A the first `rank` rows of r. Both as in PEFT 0.21.
/// Order   each branch by itself, in f64. A and B are rounded to their type first. Then s times the product of the rounded
///         factors is subtracted from the rows, which are rounded once.
/// Errors  usage: a rank above the number of a branch's rows or inputs. bad_file: no LAPACK, a number that is not finite. TERN_CHECK: rows that
///         are not dense; means (pool), magnitudes, elastic branches.
/// Source  Meng et al. 2024, arXiv:2404.02948 (PiSSA); Büyükakyüz 2024, arXiv:2406.01775 (OLoRA).
void take_factors(const ModelSpec&, ModelWeights& weights, AdapterInit);
/// Writes A₀ and B₀ into the branches of `adapters`, unit by unit, from the rows of a model's files in `dtype`. The bits
/// are those of take_factors if `adapters` have type `dtype`; in a wider type A₀ and B₀ are not rounded to `dtype`.
void read_taken_factors(const ModelSpec&, const std::string& model_dir, DType dtype, AdapterInit,
                        ModelWeights& adapters);

/// An adapter that began with taken factors, rewritten as an ordinary adapter of the weights in the model's files.
struct WholeAdapter {
  ModelSpec spec;
  PeftConfig config;
  ModelWeights weights;  // branches alone: A stacked on A₀, B beside -B₀
};
WholeAdapter with_taken_factors(const ModelSpec&, const PeftConfig&, const std::string& model_dir, DType dtype,
                                AdapterInit, const ModelWeights& trained, Arena&);

}  // namespace tern
