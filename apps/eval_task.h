#pragma once
// `tern eval --task FILE`: runs questions through a model and prints the results.

namespace tern {

class Options;
struct ModelDescription;

/// Prints figures and returns the exit code: 75 if it was stopped and the same command can go on from there (--output).
int run_task(const Options&, const ModelDescription&);

}  // namespace tern
