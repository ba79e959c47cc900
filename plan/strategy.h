#pragma once
// What a plan chooses: the outer choice of a run (mesh, pipeline, micro-batch) and the strategy of each layer. Values
// only.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "plan/instance.h"
#include "spec/mesh.h"
#include "spec/unit_cost.h"
#include "spec/update_rule.h"

namespace tern {

/// How sequences that are not all `seq` long fill windows of `seq` tokens.
enum class Batching : uint8_t { packed, padded };
class WindowMix;  // plan/window_mix.h

/// The lengths of a job's sequences. Files and comparisons keep the counts and the checksum, not the distribution.
struct JobLengths {
  Batching batching = Batching::packed;
  int64_t sequences = 0, tokens = 0;
  uint32_t crc = 0;                      // SequenceLengths::crc
  std::shared_ptr<const WindowMix> mix;  // nullptr: of a job that was read from a file
  bool given() const { return sequences > 0; }
  friend bool operator==(const JobLengths& a, const JobLengths& b) {
    return a.batching == b.batching && a.sequences == b.sequences && a.tokens == b.tokens && a.crc == b.crc;
  }
};

/// What is asked for.
struct TrainJob {
  int64_t batch = 1,
          seq = 1;  // windows of one step, and tokens of each window; an encoder reads as many tokens as its decoder
  DType dtype = DType::bf16;  // of weights and activations
  DType gradients = DType::f32;
  UpdateRule optimizer = UpdateRule::adamw;  // with its options' defaults
  double capacity_factor = 1.25;  // of mixtures of experts: the rows that an expert rank has room for, as a multiple
                                  // of an even share
  JobLengths lengths = {};        // not given: one sequence of `seq` tokens to a window
  friend bool operator==(const TrainJob&, const TrainJob&) = default;
};

/// How a layer is kept. zero: 0 nothing is sharded over replicas; 1 optimizer states; 2 gradients too, reduced with
/// each micro-batch; 3 parameters too, gathered for each pass.
struct LayerStrategy {
  int zero = 0;
  Recompute recompute = Recompute::none;
  Tier states = Tier::device;       // where optimizer states live and the update runs
  Tier activations = Tier::device;  // where activations wait for the backward
  friend bool operator==(const LayerStrategy&, const LayerStrategy&) = default;
};

/// θ: what is fixed before layers are placed.
struct OuterChoice {
  Mesh mesh;
  int num_stages = 1, chunks_per_stage = 1;
  PipelineSchedule schedule = kOneStageSchedule;
  int64_t micro_batch = 1;  // sequences per data rank
  int64_t num_micro = 1;
  int64_t devices() const { return mesh.devices() * num_stages; }
  friend bool operator==(const OuterChoice&, const OuterChoice&) = default;
};

std::string_view name_of(Batching);  // "packed", "padded"
/// "zero 1, recompute attention, states on host".
std::string to_string(const LayerStrategy&);
/// "tp 8, cp 2 (ring), dp 64, pp 16 × 2 interleaved, micro-batch 1 × 128".
std::string to_string(const OuterChoice&);

}  // namespace tern
