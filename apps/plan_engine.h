#pragma once
// A plan for this very machine: the `tern train` that runs it, and its memory as the trainer counts it.

#include <string>

#include "plan/plan_file.h"
#include "spec/model_spec.h"
#include "train/fit.h"

namespace tern {

struct Cluster;
struct Machine;

struct EngineTraining {
  std::string why_not;  // "", or why this engine does not run the plan
  bool packs = false;   // said of a plan for sequences of unlike length
  std::string model;    // MODEL of that command, quoted; "" where it takes no such model (presets, GGUF)
  std::string asks;     // what it wants besides: " --from-scratch --tokenizer TOKENIZER"
  std::string command;  // "--plan plan.json"; of a plan without a file "--batch 16 --seq 256 … --dtype f32", or "--plan
                        // PLAN" where its layers do not recompute alike
  uint32_t program = 0;  // checksum of a step's Program, if the plan says it
  MemoryPlan memory;     // of a run whose only checkpoint comes after the last step
  MemoryPlan saving;     // of one that saves on the way
};
/// What the search does not count and the trainer does: the scratch of this machine's multiplier, the head's tiles as
/// its kernels want them, the copy a checkpoint is written from. The same function that `tern train` asks before it
/// allocates.
/// `file`: the plan's, "" if it was not written.
EngineTraining engine_training(const ModelSpec&, const Plan&, const std::string& file);
/// How a plan of this cluster's jobs becomes a Program: where the cluster is this engine's own machine, with the scratch
/// that `tern train` takes by default.
PlacementOptions engine_placement(const Cluster&, DType);
/// Milliseconds of a step by kind of unit and pass, as the plan prices them on one device: what lies beside the spans
/// of `tern train --trace`. A unit that is made again counts so in its backward.
std::string describe_times(const ModelSpec&, const Plan&, const Machine&);
/// Prints both (`json`: to standard error) where the cluster is this engine's own machine.
void tell_engine(const ModelSpec&, const Plan&, const Cluster&, const std::string& file, bool json);
/// A line on what the file's own spreads say of its rates, where they are wide; "" where they are not.
std::string noise_of(const Cluster&);
/// Lines for people; `capacity`: what the cluster file leaves to a program.
std::string describe(const EngineTraining&, int64_t capacity);

}  // namespace tern
