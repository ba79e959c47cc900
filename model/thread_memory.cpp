#include "model/thread_memory.h"

#include <algorithm>
#include <vector>

#include "base/threads.h"
#include "kernels/cpu/coded_int8.h"
#include "model/linear.h"
#include "model/unit_impl.h"

namespace tern {

ThreadMemory thread_memory(const ModelSpec& spec, const ThreadWork& work) {
  if (work.dtype == DType::f64 || work.tokens == 0) return {};
  ThreadBytes all;
  int64_t library = 0;
  const ScratchBytes from_arena = scratch_bytes(work.multiply, work.dtype);
  // unit_cost asks for each product of a unit what it takes; here it is asked what threads keep of it.
  const ScratchBytes asked = [&](ProductKind kind, int64_t m, int64_t n, int64_t k) -> int64_t {
    const bool gradient = kind == ProductKind::input_gradient || kind == ProductKind::weight_gradient;
    if (work.gradients || !gradient) {
      all = most(all, thread_bytes(work.multiply, work.dtype, kind, m, n, k));
      if (work.in_integers && !gradient) all = most(all, coded_int8_thread_bytes(m, k));
      library = std::max(library, library_bytes(work.multiply, work.dtype, kind, m, n, k));
    }
    return from_arena(kind, m, n, k);
  };
  std::vector<const Unit*> seen;  // layers repeat each other
  for (const Unit& unit : spec.units) {
    if (std::ranges::any_of(seen, [&](const Unit* before) { return before->spec == unit.spec; })) continue;
    seen.push_back(&unit);
    static_cast<void>(unit_cost(unit, {.tokens = work.tokens, .dtype = work.dtype, .scratch = asked}));
    if (const AttentionSpec* attention = attention_of(unit)) all = most(all, attention_thread_bytes(*attention, work));
  }
  return {all.total(num_compute_threads()), library};
}

}  // namespace tern
