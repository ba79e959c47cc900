#include "plan/strategy.h"

#include <fmt/format.h>

namespace tern {

std::string_view name_of(Optimizer o) { return o == Optimizer::adamw ? "adamw" : "sgd"; }
std::string_view name_of(Tier t) { return t == Tier::device ? "device" : t == Tier::host ? "host" : "disk"; }

std::string to_string(const LayerStrategy& s) {
  std::string text = fmt::format("zero {}, recompute {}", s.zero, name_of(s.recompute));
  if (s.states != Tier::device) text += fmt::format(", states on {}", name_of(s.states));
  if (s.activations != Tier::device) text += fmt::format(", activations on {}", name_of(s.activations));
  return text;
}

int64_t state_bytes(const TrainJob& job) {
  const int64_t wide = job.dtype == DType::f64 ? 8 : 4;
  const int64_t master = size_of(job.dtype) < wide ? wide : 0;
  return master + (job.optimizer == Optimizer::adamw ? 2 : 1) * wide;
}

}  // namespace tern
