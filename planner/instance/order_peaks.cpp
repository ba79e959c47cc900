#include "planner/instance/order_peaks.h"

#include <algorithm>

namespace tern {
namespace {

bool at_most(const std::vector<int>& a, const std::vector<int>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] > b[i]) return false;
  return true;
}

}  // namespace

// As pipeline_peak_moments walks: an operation counts what is held before it and what is held after it.
OrderPeaks::OrderPeaks(const PipelineShape& shape, const PipelineOrder& order)
    : split_(splits_backward(shape.schedule)), devices_(order.size()) {
  std::vector<size_t> place(static_cast<size_t>(shape.num_virtual_stages()));
  for (int s = 0; s < shape.num_virtual_stages(); ++s) {
    std::vector<int>& stages = devices_[static_cast<size_t>(device_of(shape, s))].stages;
    place[static_cast<size_t>(s)] = stages.size();
    stages.push_back(s);
  }
  for (size_t d = 0; d < order.size(); ++d) {
    Device& device = devices_[d];
    const std::vector<int> none(device.stages.size(), 0);
    device.moments.resize(device.stages.size());
    Moment now{none, none};
    for (const PipelineOp& op : order[d]) {
      const size_t at = place[static_cast<size_t>(op.stage)];
      std::vector<Moment>& seen = device.moments[at];
      const auto note = [&] {
        const auto covers = [](const Moment& a, const Moment& b) {
          return at_most(b.held, a.held) && at_most(b.held_weight, a.held_weight);
        };
        for (size_t i = seen.size(); i-- > 0;)  // the last ones are the likeliest
          if (covers(seen[i], now)) return;
        std::erase_if(seen, [&](const Moment& m) { return covers(now, m); });
        seen.push_back(now);
      };
      if (op.phase != Phase::forward) note();
      if (op.phase == Phase::forward) ++now.held[at];
      if (op.phase == Phase::backward) --now.held[at], now.held_weight[at] += split_;
      if (op.phase == Phase::weight) --now.held_weight[at];
      if (op.phase != Phase::weight) note();
    }
  }
}

TierBytes OrderPeaks::peak(int device, const AssignmentBytes& bytes) const {
  const Device& of = devices_[static_cast<size_t>(device)];
  TierBytes most{};
  for (size_t running = 0; running < of.stages.size(); ++running)
    for (const Moment& m : of.moments[running]) {
      TierBytes now{};
      now[0] = bytes.stages[static_cast<size_t>(of.stages[running])].transient;
      for (size_t i = 0; i < of.stages.size(); ++i) {
        const StageBytes& stage = bytes.stages[static_cast<size_t>(of.stages[i])];
        for (size_t tier = 0; tier < kTiers; ++tier) now[tier] += m.held[i] * stage.held[tier];
        now[0] += m.held_weight[i] * stage.held_weight;
      }
      for (size_t tier = 0; tier < kTiers; ++tier) most[tier] = std::max(most[tier], now[tier]);
    }
  for (size_t tier = 0; tier < kTiers; ++tier) most[tier] += bytes.persistent[static_cast<size_t>(device)][tier];
  return most;
}

}  // namespace tern
