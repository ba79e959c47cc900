#pragma once
// Limits on the time and bytes of one stage. A label that exceeds them cannot become part of a better plan and is dropped.

#include <cstdint>
#include <vector>

#include "planner/instance/chain_impl.h"

namespace tern {

/// What a cut limits, with p and q of bound_model_impl.h: p; p + q; or c·p plus a lower bound of the tail (sync + update −
/// last gradient operation, summed over the layers).
enum class CutOn : uint8_t { work, work_and_rest, done };

/// A linear cut. A label of layer u and state s survives if the limited time + lambda·bytes ≤ limit[j][s], where j + 1 is the
/// number of layers in the label. The limit is a Lagrangian bound: the time allowed, plus lambda times the capacity, minus the
/// cheapest way to complete the stage.
struct Cut {
  double lambda = 0;
  CutOn on = CutOn::work;
  std::vector<double> limit;  // (length · width)
};

/// Cuts of one stage.
struct Cuts {
  int width = 1;  // states per row of limit
  std::vector<Cut> cuts;
};

/// The value of a TimeLimit's members where no stage may begin.
inline constexpr double kNoLimit = -1e300;
/// The most time that a stage may take, for each kind of cut.
struct TimeLimit {
  double work = kNoLimit, work_and_rest = kNoLimit, done = kNoLimit;
  double of(CutOn on) const { return on == CutOn::work ? work : on == CutOn::work_and_rest ? work_and_rest : done; }
};

/// Makes the cuts of one stage at given prices of memory.
class StageCuts {
 public:
  StageCuts(const Chain&, int stage, const std::vector<double>& lambdas);
  /// The cuts for stages that end before layer `end`. limit[j]: of a stage over layers [end − 1 − j, end).
  Cuts make(int end, int length, const std::vector<TimeLimit>& limit) const;

 private:
  const Chain& chain_;
  const int stage_;
  std::vector<Cut> kinds_;                 // without limits
  std::vector<std::vector<double>> unit_;  // (layers)(states · kinds): least of time + lambda·bytes
};

}  // namespace tern
