#pragma once
// What `tern inspect` says of a model's architecture, in words and numbers.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spec/model_spec.h"

namespace tern {

/// Parameters by the part of the model they belong to; in a mixture the routers and the shared MLP count as experts.
struct Parts {
  int64_t embedding = 0, attention = 0, mlp = 0, experts = 0, norms = 0, head = 0;
  int64_t total() const { return embedding + attention + mlp + experts + norms + head; }
};
Parts count_parts(const ModelSpec&);

/// How the model knows where a token stands: "rotary, YaRN scaling", "ALiBi: …", "learned: …".
std::string position_words(const ModelSpec&);

/// One line per kind of unit, with how often it comes.
std::vector<std::pair<std::string, int64_t>> unit_lines(const ModelSpec&);

}  // namespace tern
