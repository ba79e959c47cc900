#pragma once
// Limits on the time and bytes of one stage, by which labels that cannot become a better plan are dropped.

#include <cstdint>
#include <vector>

#include "planner/instance/chain_impl.h"

namespace tern {

/// What a cut limits, for a stage's p and q (bound_model_impl.h): p; p + q; or c·p with backlog and update, which no
/// further layer makes less.
enum class CutOn : uint8_t { work, work_and_rest, done };

/// A linear cut. A label of layer u and state s survives if the limited time + lambda·bytes ≤ limit[j][s], j = layers
/// in the label − 1. The limit is a Lagrangian bound: the time allowed less the cheapest way on, with memory at the
/// price lambda.
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
