#pragma once
// Limits on the time and bytes of one stage, by which labels that cannot become a better plan are dropped.

#include <cstdint>
#include <vector>

#include "planner/instance/chain_impl.h"

namespace tern {

/// What a cut limits: p, p + q, or c·p + backlog and update (which no further layer makes less).
enum class CutOn : uint8_t { work, work_and_rest, done };

/// A linear cut: a label of layer u, state s survives if that + lambda·bytes ≤ limit[j][s], j = layers in the label
/// − 1. It is the completion bound of a Lagrangian: time limit less the cheapest way on, memory priced at lambda.
struct Cut {
  double lambda = 0;
  CutOn on = CutOn::work;
  std::vector<double> limit;  // (length · width)
};

struct Cuts {
  int width = 1;  // states per row of limit
  std::vector<Cut> cuts;
};

/// Most time that a stage may take, for each cut. kNoLimit: no stage begins there.
inline constexpr double kNoLimit = -1e300;
struct TimeLimit {
  double work = kNoLimit, work_and_rest = kNoLimit, done = kNoLimit;
  double of(CutOn on) const { return on == CutOn::work ? work : on == CutOn::work_and_rest ? work_and_rest : done; }
};

class StageCuts {
 public:
  StageCuts(const Chain&, int stage, const std::vector<double>& lambdas);
  /// limit[j]: of a stage over layers [end − 1 − j, end).
  Cuts make(int end, int length, const std::vector<TimeLimit>& limit) const;

 private:
  const Chain& chain_;
  const int stage_;
  std::vector<Cut> kinds_;                 // without limits
  std::vector<std::vector<double>> unit_;  // (layers)(states · kinds): least of time + lambda·bytes
};

}  // namespace tern
