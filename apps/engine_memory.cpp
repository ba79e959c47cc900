#include "apps/engine_memory.h"

#include "train/fit.h"

namespace tern {

EngineMemory engine_memory(const ModelSpec& spec, const EngineJob& job) {
  TrainSettings s;
  s.seq = job.seq, s.batch = job.batch, s.micro_batch = job.micro_batch;
  s.dtype = job.dtype, s.recompute = job.recompute;
  s.optimizer = update_config(job.optimizer);
  s.schedule.total_steps = 2;
  s.checkpoint_every = job.saves ? 1 : 0;
  const MemoryPlan plan = predict_memory(spec, s, 0);
  EngineMemory out{.tensors = plan.tensors()};
  for (const auto& [name, bytes] : plan.classes())
    if (name != "scratch" && name != "data" && name != "process") out.classes.emplace_back(name, bytes);
  return out;
}

}  // namespace tern
