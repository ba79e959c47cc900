#pragma once
// A run of a table in words.

#include <string>

#include "calibrate/run_table.h"

namespace tern {

/// "width 8192, 48 layers" or the preset's name.
std::string model_words(const PublishedRun&);
/// What may be compared, as it is what a planner chooses among: model, sequence, batch, devices, products.
/// "width 8192, 48 layers, 1536 of 2048 tokens on 512 devices".
std::string job_words(const PublishedRun&);

}  // namespace tern
