#pragma once
// The moments of a device's order of operations at which its bytes can be at their peak, whatever its stages hold. They are
// few. They are found once, so that a search computes peaks without a walk over the order.

#include <vector>

#include "program/stage_model.h"

namespace tern {

/// The peaks of one order.
class OrderPeaks {
 public:
  /// The order must not follow the times.
  OrderPeaks(const PipelineShape&, const PipelineOrder&);
  /// The virtual stages of a device, rising.
  const std::vector<int>& stages_of(int device) const { return devices_[static_cast<size_t>(device)].stages; }
  /// The peak of one device, as peak_bytes (program/stage_model.h) has it.
  TierBytes peak(int device, const AssignmentBytes&) const;

 private:
  // Numbers of micro-batches at one moment while a stage runs; entry k is for stages[k]. held: between forward and backward;
  // held_weight: between backward and weight gradient.
  struct Moment {
    std::vector<int> held, held_weight;
  };
  struct Device {
    std::vector<int> stages;
    std::vector<std::vector<Moment>> moments;  // by running stage; none is ≤ another in every count
  };
  bool split_;
  std::vector<Device> devices_;
};

}  // namespace tern
