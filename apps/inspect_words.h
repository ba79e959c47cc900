#pragma once
// A model's architecture in words and numbers, for `tern inspect`.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spec/model_spec.h"

namespace tern {

/// The number of parameters of each part of a model. In a mixture of experts, routers and shared MLPs count as experts.
struct Parts {
  int64_t embedding = 0, attention = 0, mlp = 0, experts = 0, norms = 0, head = 0;
  int64_t total() const { return embedding + attention + mlp + experts + norms + head; }
};
Parts count_parts(const ModelSpec&);

/// How the model encodes positions: "rotary, YaRN scaling", "ALiBi: …", "learned: …".
std::string position_words(const ModelSpec&);
/// A line for each kind of unit, with the number of such units.
std::vector<std::pair<std::string, int64_t>> unit_lines(const ModelSpec&);

}  // namespace tern
