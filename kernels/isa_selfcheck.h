#pragma once
// Before an instruction set is chosen, its kernels are compared with the plain twins (kernels/ref/), in as many
// threads as OpenMP will have: some virtual machines report an instruction that works in the first thread only.

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

/// The kernels of one set that the self-test compares: those whose instructions differ between sets.
struct IsaKernels {
  MatmulTable matmul;
  TileMatmulTable tiles;
  HeadLossTable head_loss;
  AttentionTable attention;
  TileAttentionTable tile_attention;
  CodedInt8Table int8;
};
IsaKernels kernels_of(Isa);

/// Empty if the kernels agree with the twins, else the first difference. They run in a copy of this process
/// (trial_process.h), so that an instruction that is missing, or that the system forbids, is found too.
/// `always_there`: every processor has the set; if no copy can be made, this process then compares the kernels itself.
std::string self_test(const IsaKernels&, bool always_there = false);

/// One set's part in a test of several.
struct IsaTest {
  IsaKernels kernels;
  bool always_there = false;
};
/// self_test of each, all in one copy of this process; if that copy does not live to the end, each in a copy of its own.
std::vector<std::string> self_tests(std::span<const IsaTest>);

}  // namespace tern
