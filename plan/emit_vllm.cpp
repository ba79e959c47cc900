// How a model is served, as vLLM's command line.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "plan/emit.h"

namespace tern {

EmittedPlan emit_serving(const std::string& model, const InferenceJob& job, const ServingPlan& plan,
                         const DeviceType& device, int64_t devices_of_node) {
  const auto refuse = [](std::string_view what) { throw Error(ErrorKind::usage, "--emit vllm: it has not {}", what); };
  const ServingRole& r = plan.decode;
  if (plan.split) refuse("prompts and decoding apart in one command; leave out --ttft or --tpot");
  if (job.weights != stored_as(job.dtype)) refuse("weights in blocks of 32 such as these; leave out --weight-dtype");
  if (job.kv != stored_as(job.dtype)) refuse("keys and values in blocks of 32 such as these; leave out --kv-dtype");
  if (job.dtype == DType::f64) refuse("f64");
  for (const TierBytes& on : {r.memory.weights_on, r.memory.kv_on})
    if (on[1] > 0 || on[2] > 0) refuse("this split of weights or keys over host and disk; give --offload none");
  const int64_t nodes = (r.layout.devices() + devices_of_node - 1) / devices_of_node;
  // Of the device what the cluster file leaves, rounded down.
  const double share =
      static_cast<double>(device.memory_bytes - device.reserved_bytes) / static_cast<double>(device.memory_bytes);
  EmittedPlan out{.file = "serve.sh"};
  out.command = {"vllm", "serve", model};
  const auto add = [&](std::string_view flag, const auto& value) {
    out.command.push_back(fmt::format("--{}", flag));
    out.command.push_back(fmt::format("{}", value));
  };
  add("dtype", job.dtype == DType::bf16 ? "bfloat16" : job.dtype == DType::f16 ? "float16" : "float32");
  add("tensor-parallel-size", r.layout.tensor);
  add("pipeline-parallel-size", r.layout.stages);
  add("data-parallel-size", r.copies);
  if (nodes > 1) add("distributed-executor-backend", "ray");
  add("max-model-len", job.context());
  add("max-num-seqs", r.users);
  add("max-num-batched-tokens", std::max(job.chunk + r.users, r.users));
  add("block-size", job.page);
  add("gpu-memory-utilization", std::floor(100 * share) / 100);
  out.text = "#!/bin/sh\nset -e\n";
  for (size_t i = 0; i < out.command.size(); ++i)
    out.text += (i == 0 ? "" : out.command[i].starts_with("--") ? " \\\n  " : " ") + out.command[i];
  out.text += "\n";
  out.rank_order =
      fmt::format("rank = tensor + {}·stage in each of {} copies, one after another", r.layout.tensor, r.copies);
  out.notes = {fmt::format("a step reads up to {} tokens of prompts beside one of each user", job.chunk),
               "MODEL is as it was given here: a preset's name is none of vLLM's, give the directory"};
  return out;
}

}  // namespace tern
