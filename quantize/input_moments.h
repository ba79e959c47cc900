#pragma once
// Σ x·xᵀ of the rows that linears multiply: what an error in a weight costs at the output.

#include <functional>
#include <unordered_map>
#include <vector>

#include "model/linear.h"

namespace tern {

/// Σ x·xᵀ of linears that `wanted` accepts; others pass unseen. Products of one call are f32, summed over its rows in
/// their order; calls are summed in f64. So the numbers do not depend on the number of threads.
class InputMoments : public InputObserver {
 public:
  /// `wanted` is asked once for each linear that comes by.
  InputMoments(Arena& arena, std::function<bool(const Linear&)> wanted) : arena_(arena), wanted_(std::move(wanted)) {}
  void see(const Linear&, const Tensor& x) override;
  /// (in, in) row-major; nothing where the linear saw no row.
  const std::vector<double>* of(const Linear&) const;

 private:
  Arena& arena_;
  std::function<bool(const Linear&)> wanted_;
  std::unordered_map<const Linear*, std::vector<double>> moments_;
};

}  // namespace tern
