#pragma once
// A plan for this very machine: the `tern train` that runs it, and its memory as the trainer counts it.

#include <string>

#include "plan/plan.h"
#include "program/placement.h"
#include "spec/model_spec.h"
#include "train/fit.h"

namespace tern {

struct Cluster;
struct Machine;

struct EngineTraining {
  std::string why_not;  // "", or why this engine does not run the plan
  bool packs = false;   // said of a plan for sequences of unlike length
  std::string model;    // MODEL of that command, quoted; "" where it takes no such model (presets, GGUF)
  std::string asks;     // options that the command needs besides: " --from-scratch --tokenizer TOKENIZER"
  std::string command;  // "--plan plan.json"; of a plan without a file "--batch 16 --seq 256 … --dtype f32", or "--plan
                        // PLAN" where its layers do not recompute alike
  uint32_t program = 0;    // checksum of a step's Program, if the plan says it
  PredictedMemory memory;  // of a run whose only checkpoint comes after the last step
  PredictedMemory saving;  // of one that saves on the way
};
/// Its figures come from predict_memory, which `tern train` asks before it allocates. Unlike the search they include the
/// scratch of this machine's multiplier, the head's tiles as its kernels want them, and the copy a checkpoint is written
/// from.
/// `file`: the plan's, "" if it was not written.
EngineTraining engine_training(const ModelSpec&, const Plan&, const std::string& file);
/// The options with which a plan for this cluster is lowered to a Program: where the cluster is this engine's own machine,
/// they have the scratch that `tern train` takes by default.
PlacementOptions engine_placement(const Cluster&, DType);
/// Milliseconds of a step by kind of unit and pass, as the plan prices them on one device: to compare with the spans of
/// `tern train --trace`. Recomputing a unit counts as its backward.
std::string describe_times(const ModelSpec&, const Plan&, const Machine&);
/// Prints command, memory and times where the cluster is this engine's own machine; with `json` a line on standard error.
void tell_engine(const ModelSpec&, const Plan&, const Cluster&, const std::string& file, bool json);
/// A line that warns where the cluster file's rates have wide spreads; "" where they have not.
std::string noise_of(const Cluster&);
/// Lines for people; `capacity`: what the cluster file leaves to a program.
std::string describe(const EngineTraining&, int64_t capacity);

}  // namespace tern
