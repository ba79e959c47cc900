#pragma once
// DoRA: a matrix with an adapter is w' = m·(w + s·b·a)/‖w + s·b·a‖, row by row, m (out) trained. What the products do with it is in
// model/linear.cpp; here is what rows are multiplied by, and what training and files say of m.
// Source: Liu et al. 2024, arXiv:2402.09353; peft 0.21. The norm is a constant of a step: no gradient flows through it.
// A branch holds m - ‖w‖: it begins with zeros, a row then has the factor 1 to the bit, and bf16 loses little of it.

#include <string>

#include "model/weights.h"

namespace tern {

/// b.lengths = ‖w + s·b·a‖ of each row, in f64, from b.row_squares and aw = a·wᵀ, of shape (rank, Linear::out), f32 or f64:
/// ‖w + s·b·a‖² = ‖w‖² + 2s·b·(a·wᵀ) + s²·b·(a·aᵀ)·bᵀ.
void row_lengths(const Branch& b, const Tensor& aw);
/// b.factors = m/b.lengths; 1 for a row of length zero.
void row_factors(const Branch& b);
/// dm += Σ over tokens of dy·y/‖w + s·b·a‖ of the branch's columns; y = (w + s·b·a)·x. Summed in order of the tokens, in f64.
void magnitude_gradient(const Branch& b, const Tensor& dy, const Tensor& y, const Tensor& dm);
/// m itself, ‖w‖ + b.magnitude: of one row of the branch, and of all its rows.
double magnitude_of(const Branch& b, int64_t row);
std::vector<double> magnitudes(const Branch& b);

/// Whether an adapter of the model has magnitudes.
bool has_magnitudes(const ModelSpec&);
/// Fills row_squares of all branches with a magnitude from the rows of `dense` (the same model's weights, or `branches` itself).
void measure_rows(const ModelSpec&, ModelWeights& dense, ModelWeights& branches, Arena&);
/// The same for weights that may stand in another form: units whose rows are not in memory as numbers are read from the model's
/// files, one unit at a time, in `dtype`, the type that is computed in. Does nothing without magnitudes.
void measure_rows(const ModelSpec&, const std::string& model_dir, DType dtype, ModelWeights& branches, Arena&);
/// For a model that is not trained: sets factors instead of row_squares, from the model's files. Does nothing without magnitudes.
void fix_row_factors(const ModelSpec&, const std::string& model_dir, DType dtype, ModelWeights& branches);

}  // namespace tern
