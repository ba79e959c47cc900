#pragma once
// --gradients zeroth-order: a step is two forward passes and one number (update/perturbed_weights.h). With --states disk the layers' weights
// lie in the file too, so that a model larger than memory trains.

#include <optional>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "train/settings.h"

namespace tern {

/// Whether it was asked for; then --optimizer is sgd without momentum, and --clip 0, if they are not given.
bool asks_for_zeroth_order(const Options&);
/// How far a step looks along its direction; absent: gradients come from backward passes. Errors: usage: --perturbation without it.
std::optional<double> perturbation_from(const Options&);
/// Errors  usage: what needs gradients of all parameters, and a rate that was meant for them.
void check_zeroth_order(const Options&, const TrainSettings&);

/// A step's passes over all of its micro-batches (program/two_forwards.h).
Program zeroth_program(const ModelSpec&, const TrainSettings&);
/// The step's micro-batches twice: as zeroth_program takes them.
void add_second_pass(std::vector<MicroBatch>&);

/// Units whose weights lie in the file: those of layers, so that what stands outside of them, a tied table above all, is in memory.
/// Empty: none.
std::vector<bool> units_in_file(const ModelSpec&, const TrainSettings&);

}  // namespace tern
