#pragma once
// GPTQ: numbers are rounded column by column, and what rounding a column did to the outputs is taken back by the columns that
// are still to come. Source: Frantar et al. 2023, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
// Transformers", arXiv:2210.17323 (recalled), eq. 2 and 3 and the Cholesky form of §3.3. The scale of a block is fitted to the
// numbers as they stand when its first column comes (RowCoder), each weighted by what its error costs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "quantize/row_coder.h"

namespace tern {

/// What errors cost: U of H⁻¹ = UᵀU, upper triangular, f64 (k, k) row-major; H = Σ x·xᵀ of the inputs (k, k), its diagonal
/// raised by `damping` of its mean. Columns that were never used (0 on the diagonal) get 1 there.
/// Order   the same bits for any number of threads. Errors  usage: H is not positive, which damping 0 allows.
std::vector<double> error_factor(std::span<const double> moments, int64_t k, double damping = 0.01);

/// What an error of each column costs once later columns have taken back what they can: 1/U_jj²; 1 if `factor` is empty.
std::vector<float> importance_of(std::span<const double> factor, int64_t k);

/// Codes `rows` (n, k) and puts in their place the numbers that the codes stand for. `factor`: of error_factor; empty: each
/// group is fitted alone, every number of the same importance. k is a multiple of the block of `type`. Each thread codes with a
/// coder of its own, of make_coder.
/// Order   rows are independent: the same bytes for any number of threads.
std::vector<std::byte> gptq_rows(WeightType type, const std::function<std::unique_ptr<RowCoder>()>& make_coder,
                                 std::span<float> rows, int64_t n, int64_t k, std::span<const double> factor);
/// gptq_rows with block_coder(type).
std::vector<std::byte> gptq_blocks(WeightType type, std::span<float> rows, int64_t n, int64_t k,
                                   std::span<const double> factor);

}  // namespace tern
