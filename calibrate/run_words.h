#pragma once
// A run of a table in words.

#include <string>

#include "calibrate/run_table.h"

namespace tern {

/// The model of a run: "width 8192, 48 layers", or the preset's name.
std::string model_words(const PublishedRun&);
/// The job of a run (runs of one job differ in the planner's choices alone): model, sequence, batch, devices, products.
/// "width 8192, 48 layers, 1536 of 2048 tokens on 512 devices".
std::string job_words(const PublishedRun&);

/// How a run was run: to_string of its choice, and what of the rest is not the usual of a table that says nothing (full recomputation, no ZeRO,
/// the default traits): "tp 8, dp 8, pp 1, micro-batch 4 × 1, recompute scores, sums apart".
std::string run_words(const PublishedRun&);

}  // namespace tern
