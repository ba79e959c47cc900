#pragma once
// DoRA: a matrix with an adapter is w' = m·(w + s·b·a)/‖w + s·b·a‖, row by row; m (out) is trained. model/linear.cpp
// computes the products; here are the factors of the rows, the gradient of m, and m as files hold it. Source: Liu et
// al. 2024, arXiv:2402.09353; peft 0.21. The norm is a constant of a step: no gradient flows through it. A branch holds
// m - ‖w‖, which begins with zeros: a row then has the factor 1 to the bit, and rounding to bf16 loses little of m.

#include <string>

#include "model/weights.h"

namespace tern {

/// b.lengths = ‖w + s·b·a‖ of each row, in f64, from b.row_squares and aw = a·wᵀ, of shape (rank, Linear::out), f32 or f64:
/// ‖w + s·b·a‖² = ‖w‖² + 2s·b·(a·wᵀ) + s²·b·(a·aᵀ)·bᵀ.
void row_lengths(const Branch& b, const Tensor& aw);
/// b.factors = m/b.lengths; 1 for a row of length zero.
void row_factors(const Branch& b);
/// dm += Σ over tokens of dy·y/‖w + s·b·a‖, for each column of the branch; y = (w + s·b·a)·x. Summed in order of the tokens, in f64.
void magnitude_gradient(const Branch& b, const Tensor& dy, const Tensor& y, const Tensor& dm);
/// m itself, ‖w‖ + b.magnitude: of one row of the branch, and of all its rows.
double magnitude_of(const Branch& b, int64_t row);
std::vector<double> magnitudes(const Branch& b);

/// Whether an adapter of the model has magnitudes.
bool has_magnitudes(const ModelSpec&);
/// Computes row_squares of each branch that has a magnitude from the rows of `dense` (the same model's weights, or `branches` itself).
void measure_rows(const ModelSpec&, ModelWeights& dense, ModelWeights& branches, Arena&);
/// The same for weights of any form. A unit whose rows are not dense in memory is read from the model's
/// files, one unit at a time, in `dtype`, the type of the computation. Does nothing without magnitudes.
void measure_rows(const ModelSpec&, const std::string& model_dir, DType dtype, ModelWeights& branches, Arena&);
/// For a model that is not trained: sets factors instead of row_squares, from the model's files. Does nothing without magnitudes.
void fix_row_factors(const ModelSpec&, const std::string& model_dir, DType dtype, ModelWeights& branches);

}  // namespace tern
