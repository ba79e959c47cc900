#pragma once
// Before an instruction set is chosen, its kernels are compared with the plain twins, in as many threads as OpenMP will
// have: on some virtual machines an instruction is announced and works in the first thread only.

#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/attention_table.h"
#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/head_loss_table.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/tile_attention_table.h"
#include "kernels/cpu/tile_matmul_table.h"
#include "kernels/dispatch.h"

namespace tern {

/// What one set multiplies with: where instructions differ between sets.
struct IsaKernels {
  MatmulTable matmul;
  TileMatmulTable tiles;
  HeadLossTable head_loss;
  AttentionTable attention;
  TileAttentionTable tile_attention;
  CodedInt8Table int8;
};
IsaKernels kernels_of(Isa);

/// Empty if the kernels agree with the twins, else what differed first. They run in a copy of this process
/// (trial_process.h), so an instruction that is missing, or that the system forbids, is found too. `always_there`: the set
/// is one that every processor has; so where no copy can be made, this process compares the kernels itself.
std::string self_test(const IsaKernels&, bool always_there = false);

/// One set's part in a test of several.
struct IsaTest {
  IsaKernels kernels;
  bool always_there = false;
};
/// self_test of each, all in one copy of this process; if that copy does not live to the end, each in a copy of its own.
std::vector<std::string> self_tests(std::span<const IsaTest>);

}  // namespace tern
