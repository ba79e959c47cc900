#pragma once
// Weighted sums of several lists of numbers, of which some numbers are left out. Stays in adapt/.

#include <functional>
#include <vector>

#include "adapt/combine.h"

namespace tern {

/// A number of list i, uniform in [0, 1), for its place `at`.
using Draw = std::function<double(size_t list, size_t at)>;
/// The lists, of one length, as one; `weights` of each. Order  every number by itself, over the lists in their order.
std::vector<double> combined_numbers(Arithmetic, std::vector<std::vector<double>> lists,
                                     const std::vector<double>& weights, double density, MajoritySign, const Draw&);

}  // namespace tern
