#include "train/async_fit.h"

#include <algorithm>

#include "base/wide_type.h"
#include "model/rope_table.h"
#include "model/thread_memory.h"
#include "program/simulate.h"
#include "train/async_state.h"
#include "train/async_worker.h"

namespace tern {

PredictedMemory predict_async_memory(const ModelSpec& spec, const TrainSettings& s, int64_t process_bytes) {
  TrainSettings one = s;
  one.async.reset();
  PredictedMemory predicted =
      predict_memory(spec, one, process_bytes);  // as if the server learnt too; with its evaluation
  const int64_t workers = s.async->rule.workers, outstanding = async_outstanding_bytes(spec, s);
  one.valid_data.clear();
  const RankBytes work = simulate(gradient_program(spec, one)).ranks[0];
  const int64_t wide = size_of(wide_type(s.dtype));
  const int64_t weights = num_parameters(spec) * size_of(s.dtype) + num_fixed_numbers(spec) * wide;
  predicted.weights += workers * weights;
  predicted.gradients += workers * (async_worker_bytes(spec, s.dtype) - weights);
  predicted.optimizer += outstanding;
  const int64_t total = s.schedule.total_steps;
  const int64_t recorded =
      predicted.staging_during_steps ? (total - 1) / s.checkpoint_every * s.checkpoint_every : total;
  predicted.staging += outstanding + async_record_bytes(s, recorded);
  predicted.activations = workers * work.buffers_at_peak, predicted.workspace = workers * work.workspace_at_peak;
  if (!s.valid_data.empty()) {
    const RankBytes evaluation = evaluation_bytes(spec, s);
    predicted.activations += evaluation.buffers_at_peak, predicted.workspace += evaluation.workspace_at_peak;
  }
  predicted.scratch *= workers + 1;
  predicted.data = workers * (s.batch * s.seq * 3 * static_cast<int64_t>(sizeof(int32_t))) +
                   (workers + 1) * rope_table_bytes(spec, s.seq);
  return predicted;
}

}  // namespace tern
