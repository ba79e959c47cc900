#pragma once
// Weighted sums of several lists of numbers, some of whose numbers are left out. For adapt/ alone.

#include <functional>
#include <vector>

#include "adapt/combine.h"

namespace tern {

/// A random number for place `at` of a list, uniform in [0, 1).
using Draw = std::function<double(size_t list, size_t at)>;

/// Combines the lists, which have one length, into one, as `Arithmetic` says. `weights`: by list. Order  each place by itself, over the lists in
/// their order.
std::vector<double> combined_numbers(Arithmetic, std::vector<std::vector<double>> lists,
                                     const std::vector<double>& weights, double density, MajoritySign, const Draw&);

}  // namespace tern
