"""DeepSpeed's own configuration reads what `tern plan --emit deepspeed` writes.

  DS_BUILD_OPS=0 pip install --no-deps --no-build-isolation --target packages deepspeed hjson py-cpuinfo msgpack
  python dev/emit/check_deepspeed.py --path packages
"""
import json
import os

import emitted

given = emitted.arguments(__doc__)
os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed  # noqa: E402
import deepspeed.comm  # noqa: E402
from deepspeed.runtime.config import DeepSpeedConfig  # noqa: E402


class Ranks:
    """Stands for the groups that a run would have."""

    def __init__(self, data):
        self.data = data

    def get_data_parallel_world_size(self):
        return self.data


deepspeed.comm.get_rank = lambda group=None: 0
for question, plan in emitted.emitted(given.tern, "deepspeed"):
    emit, choice, job, layer = plan["report"]["emit"], plan["choice"], plan["job"], plan["layers"][0]
    text = json.loads(emit["text"])
    c = DeepSpeedConfig(text, mpu=Ranks(choice["data"]))
    command = emit["command"]
    emitted.check("devices", int(command[2]) * int(command[4]), choice["data"] * choice["tensor"])
    emitted.check("batch", c.train_batch_size, job["batch"])
    emitted.check("micro-batch", c.train_micro_batch_size_per_gpu, choice["micro_batch"])
    emitted.check("micro-batches", c.gradient_accumulation_steps, choice["micro_batches"])
    emitted.check("zero", int(c.zero_optimization_stage), layer["zero"])
    emitted.check("tensor", max(1, c.tensor_parallel_config.autotp_size), choice["tensor"])
    emitted.check("bf16", c.bfloat16_config.enabled, job["dtype"] == "bf16")
    emitted.check("f16", c.float16_config.enabled, job["dtype"] == "f16")
    offload = c.zero_config.offload_optimizer
    emitted.check("states", "host" if offload and offload.device == "cpu" else "device", layer["states"])
    print(f"accepted: {question}")
print(f"DeepSpeed {deepspeed.__version__}: every file is accepted and read as the plan says")
