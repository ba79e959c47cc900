#pragma once
// The offset of a block of NF4_1: what is subtracted from its numbers, chosen so that their codes have the largest entropy.
// Information calibration (ICQ) of IR-QLoRA, Qin et al. 2024, arXiv:2402.05445; read in the authors' code (htqin/IR-QLoRA,
// utils.py, `search`).

#include <span>

namespace tern {

/// The offset τ = m + f·max|x − m|, m the lower median, for which the nearest levels to (x − τ)/max|x − τ| have the largest
/// entropy. Tried are 201 f from −0.1σ to 0.1σ in even steps; 1/σ is the quantile of the normal distribution at which NF4's
/// largest level lies. Of equals the first. middles: between neighbouring levels, ascending; a number there takes the lower
/// level.
/// Order   differences and quotients are rounded as the coder's (quantize/nf4_coder.cpp), entropies compared in fixed point of 2^-40.
/// Errors  bug: no numbers, or more than 64. Numbers that are not finite give some offset, which may be NaN.
float offset_of_most_information(std::span<const float> x, std::span<const float> middles);

}  // namespace tern
