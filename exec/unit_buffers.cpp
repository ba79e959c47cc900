#include "exec/unit_buffers.h"

#include "base/error.h"

namespace tern {

UnitBuffers::UnitBuffers(const ModelSpec& spec, const Program& p)
    : num_units(p.num_units), output(size_t(p.num_units) * p.num_micro), gradient(output.size()) {
  for (int m = 0; m < p.num_micro; ++m)
    for (const Unit& unit : spec.units) saved.push_back(nothing_saved(unit));
}

void UnitBuffers::free(const Buffer& b, const Unit& unit, bool with_saved) {
  const size_t i = at(b.unit, b.micro);
  switch (b.kind) {
    case BufferKind::output:
      output[i] = Tensor();
      break;
    case BufferKind::gradient:
      gradient[i] = Tensor();
      break;
    case BufferKind::remade:
      remade = Tensor();
      break;
    case BufferKind::saved:
      saved[i] = nothing_saved(unit);
      break;
    case BufferKind::left:
      if (!with_saved) drop_left(saved[i]);
      break;
    case BufferKind::kept_sum:
      kept_sums.erase({b.unit, b.micro});
      break;
    default:
      TERN_CHECK(false, "execute: {}: require_executable let it pass", to_string(b));
  }
}

}  // namespace tern
