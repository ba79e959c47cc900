#pragma once
// Tables of runs as people publish them: one configuration a row, with the time it took. Comma-separated values with a
// line of column names.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/cluster.h"
#include "plan/strategy.h"
#include "plan/train_job.h"
#include "spec/recompute.h"

namespace tern {

/// fit: the constants may be fitted to it; score: they are not, its error is reported; pair: of a run whose plan is not
/// stated whole, so that only its order among the runs of its job counts.
enum class RunUse : uint8_t { fit, score, pair };
std::string_view name_of(RunUse);

/// A row: the sizes of a decoder or a preset's name, how it was run, and what was measured.
struct PublishedRun {
  int line = 0;        // of the table
  std::string model;   // a preset's name; "": gpt2's blocks of the sizes below
  std::string source;  // column "source", for the reader
  int64_t vocabulary = 0, width = 0, heads = 0, kv_heads = 0, layers = 0;  // kv_heads 0: as many as heads
  TrainJob job;
  bool experts_stated = true;  // whether the row says how experts are spread, as a mixture's row must
  OuterChoice choice;          // every stage with an equal share of the blocks; num_micro from the batch
  LayerStrategy strategy;
  PartRecompute part = PartRecompute::none;  // beside Recompute::none
  FrameworkTraits
      traits;  // columns "products", "gradient sums", "sequence parallelism", "weight gathers", "context exchange", and "tensor overlap": gradients
  double seconds = 0;  // measured, of one step; 0: not stated
  RunUse use = RunUse::fit;
  int64_t devices() const { return choice.devices(); }
};

/// What a table may leave out.
struct RunDefaults {
  int64_t vocabulary = 51200;
  PipelineSchedule schedule = kOneStageSchedule;
  DType dtype = DType::f16;
  Recompute recompute = Recompute::full;
  int zero = 0;
};

/// Reads a table. Columns  by name, whatever case and order. Of the shape: "gpus", "global batch", "micro batch",
///          "hidden size", "attention heads", "key/value heads" (as many if left out), "layers", "sequence length", or
///          "model" in place of the sizes. Parallel degrees: "tensor parallelism", "data parallelism", "pipeline
///          parallelism", "context parallelism", "expert parallelism" (a mixture must have it), "expert tensor
///          parallelism" (of mixtures), "virtual stages" (chunks of blocks on each stage); a degree left out is 1, data
///          what is left of the gpus. How: "schedule", "recompute" (Recompute's words, or PartRecompute's), "zero",
///          "dtype", "vocabulary", "products" (16-bit, 8-bit), "sequence parallelism" (on, off: norms of all rows on
///          each tensor rank), "tensor overlap" (off; gradients: the sum of a matrix's input gradients beside its weight gradient; on:
///          all exchanges beside products), "gradient sums" (apart, in products; left out: as elementwise work), "weight gathers" (of ZeRO 1 and 2: before, beside the first forward),
///          "context exchange" (ring; gather: keys and values of all ranks in the open). Measured: "iteration time
///          (ms)" or "tokens/s/gpu". "parameters (billion)" and "source" are for the reader; "use" says fit, score or
///          pair.
/// Gradients are kept, and summed over ranks, in f16 where weights are, in f32 otherwise, unless "gradient dtype" says so.
/// Errors   bad_file "PATH:LINE: COLUMN: fact, expectation" for unknown or missing columns, cells that are no number or
/// out of range, degrees that do not multiply to the gpus, batches that do not divide, sizes beside a model, chunks on
/// a single stage. 64 MiB and 16,384 rows at most.
std::vector<PublishedRun> parse_runs(std::string_view csv, const std::string& path, const RunDefaults& = {});
std::vector<PublishedRun> read_runs(const std::string& path, const RunDefaults& = {});

}  // namespace tern
