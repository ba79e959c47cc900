#pragma once
// --gradients zeroth-order: a step makes two forward passes and takes the slope from their losses (update/perturbed_weights.h). With --states
// disk the layers' weights lie in the file too, so a model larger than memory can be trained.

#include <optional>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "train/settings.h"

namespace tern {

/// Whether --gradients zeroth-order was given. Then --optimizer is sgd without momentum, and --clip is 0, unless these are given.
bool asks_for_zeroth_order(const Options&);
/// How far a step moves the weights along its direction; none: gradients come from backward passes. Errors: usage: --perturbation without
/// --gradients zeroth-order.
std::optional<double> perturbation_from(const Options&);
/// Refuses settings that need gradients of all parameters, and a missing --learning-rate: its default is for such gradients. Errors  usage.
void check_zeroth_order(const Options&, const TrainSettings&);

/// The Program of a step: two forward passes over all of its micro-batches (program/two_forwards.h).
Program zeroth_program(const ModelSpec&, const TrainSettings&);
/// Appends a second copy of the step's micro-batches, for the second pass of zeroth_program.
void add_second_pass(std::vector<MicroBatch>&);

/// For each unit whether its weights lie in the file: those of layers do; embedding, head and a tied table lie in memory. Empty: no weights do.
std::vector<bool> units_in_file(const ModelSpec&, const TrainSettings&);

}  // namespace tern
