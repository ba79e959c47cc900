#pragma once
// `tern eval --reference MODEL`: how far a model is from another one.

namespace tern {

class Options;
struct ModelDescription;

/// Returns the exit code: 75 if it was stopped and the same command goes on (--output). Prints figures.
int run_compare_models(const Options&, const ModelDescription&);

}  // namespace tern
