#pragma once
// The activation kernels of one instruction set; activation.cpp splits elements or rows over threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/tables.h"

namespace tern {

template <class T>
struct ActivationKernels {  // y of a backward: null where it is not wanted
  void (*gated)(Activation, int64_t hidden, int64_t rows, const T* gate_up, T* y);
  void (*gated_backward)(Activation, int64_t hidden, int64_t rows, const T* gate_up, const T* dy, T* y, T* dgate_up);
  void (*clamped)(const ClampedGate&, int64_t hidden, int64_t rows, const T* gate_up, T* y);
  void (*clamped_backward)(const ClampedGate&, int64_t hidden, int64_t rows, const T* gate_up, const T* dy, T* y,
                           T* dgate_up);
  void (*plain)(Activation, int64_t count, const T* x, T* y);
  void (*plain_backward)(Activation, int64_t count, const T* x, const T* dy, T* y, T* dx);
};
struct ActivationTable {
  ActivationKernels<float> f32;
  ActivationKernels<bf16> bfloat16;
};
TERN_DECLARE_TABLES(ActivationTable, activation_table)

}  // namespace tern
