#pragma once
// `tern eval --reference MODEL`: how far a model's predictions are from those of another model.

namespace tern {

class Options;
struct ModelDescription;

/// Compares the models, prints the figures, and returns the exit code: 75 if it was stopped and the same command can continue (--output).
int run_compare_models(const Options&, const ModelDescription&);

}  // namespace tern
