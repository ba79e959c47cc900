"""torchtitan's own configuration reads what `tern plan --emit torchtitan` writes, and cuts the model as the plan does.

  pip install --no-deps --target packages torchtitan tyro docstring_parser typeguard spmd_types
  python dev/emit/check_torchtitan.py --path packages
"""
import importlib.metadata

import emitted

given = emitted.arguments(__doc__)

from torchtitan.config.manager import ConfigManager  # noqa: E402
from torchtitan.distributed import pipeline_parallel  # noqa: E402
from torch.distributed.pipelining.schedules import get_schedule_class  # noqa: E402

for question, plan in emitted.emitted(given.tern, "torchtitan"):
    command = plan["report"]["emit"]["command"]
    choice, job, layer = plan["choice"], plan["job"], plan["layers"][0]
    c = ConfigManager().parse_args(command[command.index("torchtitan.train") + 1:])
    p, t = c.parallelism, c.training
    world = int(command[2]) * int(command[4])
    dp = p.data_parallel_replicate_degree * p.data_parallel_shard_degree
    emitted.check("devices", world, p.tensor_parallel_degree * p.context_parallel_degree * dp * p.pipeline_parallel_degree)
    emitted.check("tensor", p.tensor_parallel_degree, choice["tensor"])
    emitted.check("context", p.context_parallel_degree, choice["context"])
    emitted.check("data", dp, choice["data"])
    emitted.check("stages", p.pipeline_parallel_degree, choice["stages"])
    emitted.check("batch", t.global_batch_size, job["batch"])
    emitted.check("sequence", t.seq_len, job["seq"])
    zero = 0 if p.data_parallel_shard_degree == 1 and p.data_parallel_replicate_degree == choice["data"] else {"always": 3, "never": 2}[p.fsdp_reshard_after_forward]
    if choice["data"] > 1:
        emitted.check("zero", zero, layer["zero"])
    ac = c.activation_checkpoint
    emitted.check("recompute", "none" if ac is None else {"FullAC": "full"}[type(ac).__qualname__.split(".")[0]], layer["recompute"])
    micro, virtual = t.local_batch_size, 1
    model = c.model_spec.model
    layers = len(model.layers)
    if choice["stages"] > 1:
        micro = p.pipeline_parallel_microbatch_size
        schedule = get_schedule_class(p.pipeline_parallel_schedule)
        virtual = -(-(layers + p.pipeline_parallel_first_stage_less_layers + p.pipeline_parallel_last_stage_less_layers)
                    // p.pipeline_parallel_layers_per_stage)
        emitted.check("micro-batches", t.local_batch_size // micro, choice["micro_batches"])
        emitted.check("schedule", {"ScheduleGPipe": "gpipe", "Schedule1F1B": "1f1b", "ScheduleInterleaved1F1B": "interleaved",
                                   "ScheduleZBVZeroBubble": "zb-v"}[schedule.__name__], choice["schedule"])
        parts = pipeline_parallel._generate_llm_fqn_per_model_part(virtual, layers, 0, 0)
        emitted.check("blocks per stage", {sum(n.startswith("layers.") for n in part) for part in parts}, {layers // virtual})
    else:
        emitted.check("accumulation", t.global_batch_size // (micro * dp), choice["micro_batches"])
    emitted.check("micro-batch", micro, choice["micro_batch"])
    emitted.check("chunks", virtual // choice["stages"] if virtual > 1 else 1, choice["chunks"])
    print(f"accepted: {question}")
print(f"torchtitan {importlib.metadata.version('torchtitan')}: every command line is accepted and read as the plan says")
