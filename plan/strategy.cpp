#include "plan/strategy.h"

#include <fmt/format.h>

namespace tern {

std::string to_string(const LayerStrategy& s) {
  std::string text = fmt::format("zero {}, recompute {}", s.zero, name_of(s.recompute));
  if (s.states != Tier::device) text += fmt::format(", states on {}", name_of(s.states));
  if (s.activations != Tier::device) text += fmt::format(", activations on {}", name_of(s.activations));
  return text;
}

std::string to_string(const OuterChoice& c) {
  const Mesh& m = c.mesh;
  std::string text = fmt::format("tp {}", m.tensor);
  if (m.context > 1) text += fmt::format(", cp {} ({})", m.context, m.ulysses ? "ulysses" : "ring");
  if (m.expert > 1) text += fmt::format(", ep {} × {}", m.expert, m.expert_tensor);
  text += fmt::format(", dp {}, pp {}", m.data, c.num_stages);
  if (c.num_stages > 1)
    text += c.chunks_per_stage > 1 ? fmt::format(" × {} {}", c.chunks_per_stage, name_of(c.schedule))
                                   : fmt::format(" {}", name_of(c.schedule));
  return text + fmt::format(", micro-batch {} × {}", c.micro_batch, c.num_micro);
}

}  // namespace tern
