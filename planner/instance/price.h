#pragma once
// What an assignment costs by the stage model (program/stage_model.h), and whether it fits. The search, its tests, the
// baselines and the Plan's tables all use these functions.

#include <memory>
#include <optional>

#include "plan/instance.h"
#include "program/stage_model.h"

namespace tern {

/// For a pipeline of more operations the search does not compute longest paths.
inline constexpr int64_t kMostOperationsFollowed = 300'000;

/// An assignment's times and bytes.
struct Priced {
  PipelineShape shape;
  PipelineTimes times;
  std::vector<TierBytes> peak;  // per device
  int64_t makespan = 0;         // ps, simulated, whether or not it fits
  // The tier that lacks the most bytes. missing_bytes ≤ 0: the assignment fits, and every tier has −missing_bytes to spare at least.
  int device = 0;
  Tier tier = Tier::device;
  int64_t missing_bytes = 0;
  bool fits() const { return missing_bytes <= 0; }
};

/// An upper bound of every step's time, ps: the sum of all times of all layers, each layer under the strategy with the largest sum, and of
/// all messages; nothing runs beside anything else.
double longest_step(const Instance&);

/// Checks an instance. Errors: usage, naming the table, for an instance whose tables have the wrong sizes, negative
/// costs, fewer layers than virtual stages, a step that may take kMostStepPs, or a schedule without an order for its
/// shape; never for an instance in which nothing fits.
void check_instance(const Instance&);

/// Prices an assignment. Errors: usage, for an assignment that does not belong to the instance: wrong sizes, an empty or skipped
/// stage, an unknown strategy.
Priced price(const Instance&, const Assignment&);

/// Prices many assignments of one instance; an order that does not depend on the times is prepared only once.
class Pricer {
 public:
  explicit Pricer(const Instance&);  // keeps a reference
  ~Pricer();
  Priced operator()(const Assignment&);
  /// The assignment's price if it fits and takes less than `upper_bound` ps, else nothing. Most assignments
  /// without a price are recognized without a simulation.
  std::optional<Priced> below(const Assignment&, int64_t upper_bound);
  int64_t simulated() const { return simulated_; }  // assignments so far

 private:
  struct Cache;
  void simulate(Priced&);
  void add_peaks(const Assignment&, Priced&);
  const Instance& instance_;
  std::unique_ptr<Cache> cache_;
  int64_t simulated_ = 0;
};

/// UniAP's formula Σp + Σo + (c − 1)·max({p} ∪ {o}) for these times: p is forward + backward + weight of a virtual stage,
/// o both ways of a link, c the number of micro-batches. Begin and tail are left out.
int64_t simple_objective(const PipelineShape&, const PipelineTimes&);

}  // namespace tern
