#pragma once
// A plain ReLU MLP that computes some of its neurons: the others are taken to be zero. If those that it leaves out are zero, the
// result has the bits of the sum over all neurons.
//   y = x + b_down + Σ over neurons i, ascending, of relu(up_i·n + b_up,i)·down_i,   n = norm(x)

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "model/compute.h"
#include "model/weights.h"

namespace tern {

/// Which neurons a row needs, ascending, by its n (D). The span is good until the next call.
using ChooseNeurons = std::function<std::span<const int>(std::span<const float> n_D)>;
/// Brings these neurons to memory: of each the address of 2·D numbers, a row of `up` and behind it a column of `down`.
using BringNeurons = std::function<std::span<const std::byte* const>(std::span<const int> neurons)>;

/// up_i·n + b of one neuron. Order: eight chains over the places of a row, added as sum_of_squares adds its chains; f32.
template <class T>
float preactivation(std::span<const T> up_D, std::span<const float> n_D, float bias);

/// The neurons that are not zero, ascending: those with !(preactivation ≤ 0), so that a NaN is one. `up`: dense. They are an exact choice.
std::vector<int> active_neurons(const Linear& up, std::span<const float> n_D);

/// n of every row of x, as floats: (T, D).
std::vector<float> mlp_inputs(const MlpSpec&, const NormWeights&, const Tensor& x_TD, const Compute&);

/// The unit's y (T, D), row by row, each with its own neurons. Of `w` the norm and the biases are read, not the matrices. `records`: of the type of x,
/// f32 or bf16.
/// Order   each element of y is one chain in f32 over the neurons, ascending, that begins with +0; the bias comes last, then the sum is rounded to x's type. As +0
///         plus a product that is +0 or −0 is +0, and no later sum can be −0, neurons whose activation is 0 change no bit (finite weights).
Tensor sparse_mlp_forward(const MlpSpec&, const MlpWeights& w, const Tensor& x_TD, const ChooseNeurons&,
                          const BringNeurons&, const Compute&);

}  // namespace tern
