#include "train/update_peaks.h"

#include <algorithm>
#include <vector>

#include "model/visit_weights.h"
#include "spec/update_rule.h"
#include "train/rank_place.h"
#include "train/settings_ranks.h"
#include "update/state.h"

namespace tern {
namespace {

bool updates_differ(const ModelSpec& spec, const TrainSettings& s) {
  if (deepest_zero(s) < 1 || num_sharers(s) == 1 || s.outer) return false;
  return std::ranges::any_of(trained_parameters(spec), [&](const ParameterInfo& info) {
    return temporary_elements(s.optimizer, form_of(spec, info)) > 0;
  });
}

// Of each unit's UPDATE on a rank: as many bytes as the largest of its own parameters takes.
std::vector<int64_t> own_temporaries(const ModelSpec& spec, const TrainSettings& s, const RankPlace& place) {
  const ModelSpec part = part_of_rank(spec, place.tensor);
  const Shares shares = shares_of(spec, s, place);
  const int64_t wide = s.dtype == DType::f64 ? 8 : 4;
  std::vector<int64_t> bytes(spec.units.size());
  const std::vector<ParameterInfo> infos = trained_parameters(part);
  for (size_t p = 0; p < infos.size(); ++p) {
    if (shares.mine(p, infos[p].shape.count()).size() == 0) continue;
    const auto unit = static_cast<size_t>(infos[p].unit);
    const bool copy = place.home[unit] != place.device;  // a tied table's, which the head's UPDATE takes along
    int64_t& most = bytes[copy ? spec.units.size() - 1 : unit];
    most = std::max(most, temporary_elements(s.optimizer, form_of(part, infos[p])) * wide);
  }
  return bytes;
}

}  // namespace

RankBytes peak_of_step(const ModelSpec& spec, const Program& step, const TrainSettings& s) {
  RankBytes peak;
  const auto add = [&](const Program& program, int64_t each) {
    for (const RankBytes& own : simulate(program).ranks) {
      peak.peak_bytes += each * own.peak_bytes;
      peak.buffers_at_peak += each * own.buffers_at_peak, peak.workspace_at_peak += each * own.workspace_at_peak;
    }
  };
  if (!updates_differ(spec, s)) {
    add(step, s.ranks / step.num_ranks);
    return peak;
  }
  const int replicas = num_sharers(s);
  for (int replica = 0; replica < replicas; ++replica) {  // the ranks of a tensor group are alike
    Program own = step;
    for (int device = 0; device < step.num_ranks; ++device) {
      const RankPlace place = rank_place(spec, s, (device * replicas + replica) * s.tensor);
      const std::vector<int64_t> bytes = own_temporaries(spec, s, place);
      for (Instruction& i : own.instructions)
        if (i.op == Opcode::update && i.rank == device)
          i.workspace_bytes = std::min(i.workspace_bytes, bytes[static_cast<size_t>(i.unit)]);
    }
    add(own, s.tensor);
  }
  return peak;
}

}  // namespace tern
