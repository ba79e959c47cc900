#pragma once
// The request for a training plan: the windows of a step, the types, the optimizer, the lengths of sequences. Values only.

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/dtype.h"
#include "spec/update_rule.h"

namespace tern {

/// How sequences that are not all `seq` long fill windows of `seq` tokens.
enum class Batching : uint8_t { packed, padded };
class WindowMix;  // plan/window_mix.h

/// The lengths of a job's sequences. Plan files and == use only batching, counts and checksum, not the distribution (mix).
struct JobLengths {
  Batching batching = Batching::packed;
  int64_t sequences = 0, tokens = 0;
  uint32_t crc = 0;                      // SequenceLengths::crc
  std::shared_ptr<const WindowMix> mix;  // nullptr if the job was read from a file
  bool given() const { return sequences > 0; }
  friend bool operator==(const JobLengths& a, const JobLengths& b) {
    return a.batching == b.batching && a.sequences == b.sequences && a.tokens == b.tokens && a.crc == b.crc;
  }
};

/// The training step that is to be planned.
struct TrainJob {
  int64_t batch = 1,
          seq = 1;  // windows of one step, and tokens of each window; an encoder reads as many tokens as its decoder
  DType dtype = DType::bf16;  // of weights and activations
  DType gradients = DType::f32;
  UpdateRule optimizer = UpdateRule::adamw;  // with its options' defaults
  double capacity_factor = 1.25;  // of mixtures of experts: how many rows an expert rank has room for, as a multiple
                                  // of an even share
  // Exchanges of rows in tensor groups pass beside the products before and behind them (model/tensor_pairs.cpp).
  bool tensor_overlap = false;
  JobLengths lengths = {};  // not given: one sequence of `seq` tokens to a window
  friend bool operator==(const TrainJob&, const TrainJob&) = default;
};

std::string_view name_of(Batching);  // "packed", "padded"

}  // namespace tern
