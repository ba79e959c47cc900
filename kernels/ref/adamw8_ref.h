#pragma once
// The plain twin (reference implementation) of kernels/cpu/adamw8.h: in doubles, and it finds each code by trying all 256.

#include "kernels/cpu/adamw8.h"

namespace tern {

struct CodedMomentsRef {
  std::span<uint8_t> m, v;
  std::span<double> m_scale, v_scale;
};
/// The gradient is left as it is.
void adamw8_step_ref(const AdamwStep&, std::span<const double> gradient, std::span<double> weight,
                     const CodedMomentsRef&);

}  // namespace tern
