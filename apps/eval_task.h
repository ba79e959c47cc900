#pragma once
// `tern eval --task FILE`: questions under a model, with what is told about them.

#include <string>

#include "base/json.h"

namespace tern {

class Options;
struct ModelDescription;

/// Returns the exit code: 75 if it was stopped and the same command goes on (--output). Prints figures.
int run_task(const Options&, const ModelDescription&);

/// Errors  usage: --data and --task, none of them, or flags that belong to another of eval's three jobs.
void check_eval_flags(const Options&);

/// What changes when a file does: path, size, time of change. Of a model: of its weights.
Json file_identity(const std::string& path);
Json weights_identity(const ModelDescription&);

}  // namespace tern
