#pragma once
// `tern eval --reference MODEL`: how far a model is from another one.

namespace tern {

class Options;
struct ModelDescription;

/// Compares the models, prints the figures, and returns the exit code: 75 if it was stopped and the same command can continue (--output).
int run_compare_models(const Options&, const ModelDescription&);

}  // namespace tern
