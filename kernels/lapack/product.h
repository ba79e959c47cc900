#pragma once
// General matrix products in f64, by BLAS.

#include <cstdint>
#include <span>
#include <vector>

namespace tern {

/// Returns a·b (m, n) of a (m, k) and b (k, n), in f64. Source: dgemm.
std::vector<double> product(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k, int64_t n);
/// Returns a·bᵀ (m, n) of a (m, k) and b (n, k), in f64. Source: dgemm.
std::vector<double> product_transposed(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k,
                                       int64_t n);

}  // namespace tern
