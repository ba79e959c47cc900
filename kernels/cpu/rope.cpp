#include "kernels/cpu/rope.h"

#include <type_traits>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rope_kernel_table.h"
#include "kernels/dispatch.h"

namespace tern {

template <class T>
void rope(const RopeShape& shape, std::span<const int32_t> positions, std::span<const float> cos,
          std::span<const float> sin, bool inverse, T* x) {
  TERN_CHECK(positions.size() == static_cast<size_t>(shape.rows) && cos.size() == sin.size() &&
                 shape.rotary_dim % 2 == 0 && shape.rotary_dim <= shape.head_dim &&
                 shape.heads * shape.head_dim <= shape.row_stride,
             "rope: {} rows of {}, {} positions, {} heads of {}, of which {} turn", shape.rows, shape.row_stride,
             positions.size(), shape.heads, shape.head_dim, shape.rotary_dim);
  const RopeKernelTable& table = TERN_TABLE_OF(rope_kernel_table, active_isa());
  parallel_ranges(shape.rows, row_grain(shape.heads * shape.rotary_dim), 1, [&](int64_t begin, int64_t end) {
    RopeShape part = shape;
    part.rows = end - begin;
    T* from = x + begin * shape.row_stride;
    if constexpr (std::is_same_v<T, float>)
      table.f32(part, positions.data() + begin, cos.data(), sin.data(), inverse, from);
    else
      table.bfloat16(part, positions.data() + begin, cos.data(), sin.data(), inverse, from);
  });
}

template void rope<float>(const RopeShape&, std::span<const int32_t>, std::span<const float>, std::span<const float>,
                          bool, float*);
template void rope<bf16>(const RopeShape&, std::span<const int32_t>, std::span<const float>, std::span<const float>,
                         bool, bf16*);

}  // namespace tern
