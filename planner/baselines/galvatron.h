#pragma once
// Galvatron's cost functions for one synthetic profile (28 equal layers, width 4096, sequence 8192, 8 devices of 36 GB,
// batch 64, bf16, 1F1B), and a search in Galvatron's space: even stages, one tensor-parallel degree per plan, per layer ZeRO-2
// or 3 and recomputation, any power of two as the number of chunks, memory in whole MB with a fifth of the device withheld.
// Formulas and numbers follow the public repository PKU-DAIR/Hetu-Galvatron (June 2026); the code is written anew.

#include <vector>

#include "plan/instance.h"

namespace tern {

/// How a layer is kept; without zero3 it is ZeRO-2.
struct GalvatronLayer {
  bool zero3 = false, recompute = false;
};

/// A plan of Galvatron's space.
struct GalvatronPlan {
  int stages = 1, chunks = 1, tensor = 1;  // data parallel: 8 / stages / tensor
  int vocab_tensor = 1;                    // of the embedding and the head
  std::vector<GalvatronLayer> layers;      // 28, split evenly over the stages
};

/// Galvatron's estimate of a plan's throughput, samples per second. Errors: usage, for degrees that do not divide 8 or layers
/// that are not 28.
double galvatron_throughput(const GalvatronPlan&);
/// Galvatron's estimate of the memory on the fullest device, and the most that Galvatron lets a plan use; both in MB.
int galvatron_memory(const GalvatronPlan&);
inline constexpr int kGalvatronMemory = 36 * 1024 - 7372;

/// The plan with the highest throughput by Galvatron's estimate, samples per second.
struct GalvatronAnswer {
  GalvatronPlan plan;
  double throughput = 0;
  long plans = 0;  // outer choices searched
};
GalvatronAnswer galvatron_search();

/// Galvatron's costs as an Instance for our search: the embedding, 28 layers of four strategies (zero3 + 2 · recompute) and
/// the head, in stages of any size. Passes and collectives are on the compute clock, transfers between stages beside it, an
/// all-reduce on the gradient link. Bytes are those that Galvatron counts, before it rounds up to whole MB. A stage's capacity
/// is kGalvatronMemory less Galvatron's 1,024 MB for the context, its gather buffer, 1 MB for the rounding of each of the 30
/// layers (embedding and head included), and 1 MB more in the first and the last stage. outer.layers is not read.
Instance galvatron_instance(const GalvatronPlan& outer, PipelineSchedule);
Assignment galvatron_assignment(const GalvatronPlan&);
/// Galvatron's estimate, in whole MB, of the fullest stage of any assignment of galvatron_instance.
int galvatron_memory(const GalvatronPlan& outer, const Assignment&);

}  // namespace tern
