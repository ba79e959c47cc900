#include "program/two_forwards.h"

#include <algorithm>
#include <vector>

#include "program/generate.h"

namespace tern {

Program two_forwards(const ModelSpec& spec, std::span<const CostQuery> micro_batches) {
  std::vector<CostQuery> twice(micro_batches.begin(), micro_batches.end());
  twice.insert(twice.end(), micro_batches.begin(), micro_batches.end());
  Program program = forward_program(spec, twice);
  std::ranges::stable_sort(program.instructions, {}, &Instruction::unit);
  return program;
}

}  // namespace tern
