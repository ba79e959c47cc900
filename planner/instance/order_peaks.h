#pragma once
// Which moments of a device's order of operations can be its peak, whatever its stages hold: few, found once, so that
// a search asks for peaks without a walk over the order.

#include <vector>

#include "program/stage_model.h"

namespace tern {

class OrderPeaks {
 public:
  /// Of an order that does not follow the times.
  OrderPeaks(const PipelineShape&, const PipelineOrder&);
  /// The virtual stages of a device, rising.
  const std::vector<int>& stages_of(int device) const { return devices_[static_cast<size_t>(device)].stages; }
  /// peak_bytes of one device.
  TierBytes peak(int device, const AssignmentBytes&) const;

 private:
  // Micro-batches at one moment while a stage runs, by place in `stages`: between forward and backward, and from there
  // to the weight gradient.
  struct Moment {
    std::vector<int> held, held_weight;
  };
  struct Device {
    std::vector<int> stages;
    std::vector<std::vector<Moment>> moments;  // by the running stage's place; none at most another one in every count
  };
  bool split_;
  std::vector<Device> devices_;
};

}  // namespace tern
