// How a model is served, as vLLM's command line.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "plan/emit_serving.h"

namespace tern {

// What is run on which node, where a node has so many of the copies.
static std::string words_for_nodes(int64_t copies, int64_t of_node) {
  const int64_t nodes = (copies + of_node - 1) / of_node, last = copies - (nodes - 1) * of_node;
  const std::string local = last == of_node ? "" : fmt::format("--data-parallel-size-local {}", last);
  if (nodes == 2)
    return fmt::format(
        "so on the first of 2 nodes; on the second the same command with --headless and "
        "--data-parallel-start-rank {}{}",
        of_node, local.empty() ? "" : ", and " + local);
  return fmt::format(
      "so on the first of {} nodes; on node K = 1 … {} the same command with --headless and "
      "--data-parallel-start-rank {}·K{}",
      nodes, nodes - 1, of_node, local.empty() ? "" : ", on the last " + local);
}

EmittedPlan emit_serving(const std::string& model, const InferenceJob& job, const ServingPlan& plan,
                         const DeviceType& device, int64_t devices_of_node) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorKind::usage, "--emit vllm: it has not {}", what);
  };
  const ServingRole& r = plan.decode;
  if (plan.split) refuse("prompts and decoding apart in one command; leave out --ttft or --tpot");
  if (job.weights != stored_as(job.dtype)) refuse("weights in blocks of 32 such as these; leave out --weight-dtype");
  if (job.kv != kv_kept_as(job.dtype)) refuse("keys and values in rows of codes such as these; leave out --kv-dtype");
  if (job.dtype == DType::f64) refuse("f64");
  for (const TierBytes& on : {r.memory.weights_on, r.memory.kv_on})
    if (on[1] > 0 || on[2] > 0) refuse("this split of weights or keys over host and disk; give --offload none");
  const int64_t of_copy = r.layout.devices(), of_node = devices_of_node / of_copy;  // copies of a node, 0: part of one
  if (of_node == 0 && r.copies > 1 && of_copy % devices_of_node)
    refuse(fmt::format("several copies of {} devices on nodes of {}; choose --max-tensor or --max-stages", of_copy,
                       devices_of_node));
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
  const bool spread = of_node > 0 && r.copies > of_node;  // whole copies on several nodes
  const bool spanning = of_node == 0 && r.copies > 1;     // whole nodes for each copy
  if (of_node == 0) add("distributed-executor-backend", "ray");
  if (spanning) add("data-parallel-backend", "ray");
  if (spread) add("data-parallel-size-local", of_node), add("data-parallel-address", "FIRST_NODE");
  add("max-model-len", job.context());
  add("max-num-seqs", r.users);
  add("max-num-batched-tokens", job.chunk + r.users);
  add("block-size", job.page);
  add("gpu-memory-utilization", std::floor(100 * share) / 100);
  std::vector<std::string> environment;
  if (spanning) environment.emplace_back("export VLLM_RAY_DP_PACK_STRATEGY=span");
  out.text = script_of(environment, out.command);
  out.rank_order =
      fmt::format("rank = tensor + {}·stage in each of {} copies, one after another", r.layout.tensor, r.copies);
  out.notes = {fmt::format("a step reads up to {} tokens of prompts beside one of each user", job.chunk),
               "MODEL is as it was given here: a preset's name is none of vLLM's, give the directory"};
  if (spread) out.notes.push_back(words_for_nodes(r.copies, of_node));
  return out;
}

}  // namespace tern
