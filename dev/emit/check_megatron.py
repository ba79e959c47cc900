"""Megatron-LM's own parser and validation read what `tern plan --emit megatron` writes.

The parser is not in the package megatron-core: give a checkout of NVIDIA/Megatron-LM.
  python dev/emit/check_megatron.py --path Megatron-LM
No GPU is needed: the device's generation is given (9, Hopper), Transformer Engine's version where it is not installed.
"""
import os
import sys
import typing

import emitted

given = emitted.arguments(__doc__)
if not hasattr(typing, "override"):  # Python before 3.12
    import typing_extensions

    typing.override = typing_extensions.override

from megatron.training import arguments as parser  # noqa: E402
import megatron.core  # noqa: E402

parser.get_device_arch_version = lambda: 9
parser.torch.cuda.get_device_capability = lambda *_: (9, 0)
parser.is_te_min_version = lambda version, check_equality=True: True

for question, plan in emitted.emitted(given.tern, "megatron"):
    command = plan["report"]["emit"]["command"]
    choice, job, layer = plan["choice"], plan["job"], plan["layers"][0]
    world = choice["tensor"] * choice["context"] * choice["data"] * choice["stages"]
    os.environ.update(WORLD_SIZE=str(world), RANK="1")  # rank 1 does not print every argument
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    if "export CUDA_DEVICE_MAX_CONNECTIONS=1" in plan["report"]["emit"]["text"]:
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    sys.argv = command[command.index("pretrain_gpt.py"):]
    a = parser.parse_args()  # unknown flags end the program
    parser.validate_args(a)
    launched = int(command[2]) * int(command[4])
    emitted.check("devices", launched, world)
    emitted.check("tensor", a.tensor_model_parallel_size, choice["tensor"])
    emitted.check("context", a.context_parallel_size, choice["context"])
    emitted.check("stages", a.pipeline_model_parallel_size, choice["stages"])
    emitted.check("data", a.data_parallel_size, choice["data"])
    emitted.check("chunks", a.virtual_pipeline_model_parallel_size or 1, choice["chunks"])
    emitted.check("expert", a.expert_model_parallel_size, choice["expert"])
    emitted.check("micro-batch", a.micro_batch_size, choice["micro_batch"])
    emitted.check("batch", a.global_batch_size, job["batch"])
    emitted.check("micro-batches", a.global_batch_size // (a.micro_batch_size * a.data_parallel_size), choice["micro_batches"])
    recompute = {None: "none", "full": "full"}[a.recompute_granularity]
    emitted.check("recompute", recompute, layer["recompute"])
    fsdp = {"optim_grads": 2, "optim_grads_params": 3}[a.data_parallel_sharding_strategy] if a.use_megatron_fsdp else None
    emitted.check("zero", fsdp or int(a.use_distributed_optimizer), layer["zero"])
    emitted.check("f32 gradients", a.accumulate_allreduce_grads_in_fp32, job["gradients"] == "f32" and job["dtype"] != "f32")
    emitted.check("sequence parallel", a.sequence_parallel, choice["tensor"] > 1)
    emitted.check("exchanges beside products", a.tp_comm_overlap, job.get("tp_comm_overlap", False) and choice["tensor"] > 1)
    print(f"accepted: {question}\n          tp {a.tensor_model_parallel_size} cp {a.context_parallel_size} dp "
          f"{a.data_parallel_size} pp {a.pipeline_model_parallel_size}, {len(sys.argv) - 1} words")
print(f"Megatron-LM of megatron-core {megatron.core.__version__}: every command line is accepted and read as the plan says")
