#pragma once
// Names the active neurons of a ReLU MLP by a product of low rank, so that only these are read (model/sparse_mlp.h).
// Source  the role: LLM in a flash (Alizadeh et al. 2023, arXiv:2312.11514, recalled), which trains two small layers by a loss. Ours
//         are fitted in closed form: preactivations are linear in n, and of all products of rank r the one that errs least in the mean square over
//         the recorded n is the projection on the r main directions of the preactivations (reduced-rank regression: Izenman 1975, recalled).

#include <cstdint>
#include <span>
#include <vector>

#include "model/weights.h"

namespace tern {

/// Sums over recorded inputs n (D) of an MLP.
struct NeuronInputs {
  int64_t rows = 0, width = 0;
  std::vector<double> sum_D, products_DD;
};
/// n: rows of `width` numbers. The first call sets the width.
void add_inputs(NeuronInputs&, std::span<const float> n_TD, int64_t width);

/// score = out·(in·n) + offset, the expected preactivation divided by its standard error: a neuron is named if score ≥ threshold.
struct NeuronPredictor {
  int64_t width = 0, hidden = 0, rank = 0;
  std::vector<float> in_RD, out_FR, offset_F;
  float threshold = 0;
  int64_t bytes() const { return static_cast<int64_t>(sizeof(float)) * (rank * (width + hidden) + hidden); }
};
/// `up`: dense, f32 or bf16. rank: at most D. Errors: bad_file: a number that is not finite, or this program has no LAPACK.
NeuronPredictor fit_predictor(const Linear& up, const NeuronInputs&, int64_t rank);

/// (F)
void predict_scores(const NeuronPredictor&, std::span<const float> n_D, std::span<float> scores_F);
/// The named neurons, ascending.
std::vector<int> named_neurons(const NeuronPredictor&, std::span<const float> n_D);

/// The highest threshold by which at least `recall` of the active neurons are named. active_scores: the scores of neurons
/// that were active, on tokens that were not fitted; it is sorted. recall: in (0, 1].
float threshold_for(double recall, std::vector<float> active_scores);

}  // namespace tern
