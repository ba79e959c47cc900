#pragma once
// A plan for the machine on which tern runs: the `tern train` command that runs it, and its memory as the trainer counts it.

#include <string>

#include "plan/plan.h"
#include "program/placement.h"
#include "spec/model_spec.h"
#include "train/fit.h"

namespace tern {

struct Cluster;
struct Machine;

/// How `tern train` would run a plan.
struct EngineTraining {
  std::string why_not;  // why tern train cannot run the plan; "": it can
  bool packs = false;   // whether the plan is for sequences of different lengths, which tern train packs
  std::string model;    // its MODEL, quoted; "": tern train does not take the planned one (a preset, a GGUF file)
  std::string asks;     // options that it needs besides `command`: " --from-scratch --tokenizer TOKENIZER"
  /// The plan as options of `tern train`: "--plan plan.json" with the plan's file. Without a file, a plan for one device with equal
  /// recomputation in all layers is given as its values, "--batch 16 --seq 256 … --optimizer adamw", any other as "--plan PLAN.json".
  std::string command;
  uint32_t program = 0;    // checksum of a step's Program; 0: the plan has none
  PredictedMemory memory;  // of a run whose only checkpoint comes after the last step
  PredictedMemory saving;  // of a run that saves checkpoints on the way too
};
/// How `tern train` would run this plan. The memory is that of predict_memory, as `tern train` predicts it. Unlike the
/// search's, it includes the scratch bytes of matrix products on this machine, the tiles of its kernels for the head, and
/// the copy from which a checkpoint is written. `file`: the plan's file; "": it was not written.
EngineTraining engine_training(const ModelSpec&, const Plan&, const std::string& file);
/// Whether `tern train` would run this plan. True for clusters that are not of tern's own ranks: what runs there is not known here.
bool runs_here(const ModelSpec&, const Cluster&, const Plan&);
/// The options with which a plan for this cluster is lowered to a Program. If `tern profile` wrote the cluster file, on this
/// machine or another, they include the scratch bytes that `tern train` uses by default on this machine.
PlacementOptions engine_placement(const Cluster&, DType);
/// A table of the milliseconds of a step by kind of unit and pass, as the plan prices them on one device, for comparison with the spans of
/// `tern train --trace`. The recomputation of a unit counts as its backward.
std::string describe_times(const ModelSpec&, const Plan&, const Machine&);
/// For a cluster file that `tern profile` wrote, and up to 1,024 devices: prints command, memory and times, or why `tern train` cannot run
/// the plan. With `json`: only a line on standard error, and nothing if `tern train` cannot run the plan.
void tell_engine(const ModelSpec&, const Plan&, const Cluster&, const std::string& file, bool json);
/// A line that warns that the rates of the cluster file spread widely; "": they do not.
std::string noise_of(const Cluster&);
/// Lines for people. `capacity`: the bytes that the cluster file leaves to a program.
std::string describe(const EngineTraining&, int64_t capacity);

}  // namespace tern
