"""vLLM's own parser reads what `tern plan --inference --emit vllm` writes.

  pip install --no-deps --target packages vllm     (and what importing vllm.engine.arg_utils asks for)
  python dev/emit/check_vllm.py --path packages
Only the parser runs: no model is read, no device is needed.
"""
import importlib.machinery
import importlib.metadata
import json
import subprocess
import sys
import unittest.mock

import emitted

given = emitted.arguments(__doc__)


class StandIn:
    """Of packages that the parser imports and does not use, where they are not installed."""

    packages = "xgrammar opentelemetry llguidance".split()

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = unittest.mock.MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(StandIn())
import vllm.platforms  # noqa: E402
from vllm.platforms.cpu import CpuPlatform  # noqa: E402

vllm.platforms._current_platform = CpuPlatform()  # which devices are here does not matter to the parser
from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402

try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402
except ImportError:
    from vllm.utils import FlexibleArgumentParser  # noqa: E402

CASES = [
    ("llama-3-8b", "h100", 1, ["--users", "32"]),
    ("llama-3-8b", "h100", 1, ["--users", "200", "--dtype", "f16", "--prompt-tokens", "4000", "--max-tokens", "500"]),
    ("llama-3-70b", "h100", 2, ["--users", "64"]),
    ("llama-3-70b", "a100-80g", 1, ["--tpot", "100ms"]),
    ("llama-3-70b", "h100", 4, ["--users", "256"]),
    ("llama-3-405b", "h100", 4, ["--users", "64"]),
    ("mixtral-8x7b", "h100", 1, ["--users", "16"]),
]
for model, machine, nodes, more in CASES:
    words = [given.tern, "plan", model, "--hardware", machine, "--nodes", str(nodes), "--inference", "--emit", "vllm",
             "--offload", "none", "--json"] + more
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    plan = json.loads(done.stdout)
    command, role, asked = plan["emit"]["command"], plan["decode"], plan["asked"]
    a = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser()).parse_args(["--model", command[2]] + command[3:])
    emitted.check("tensor", a.tensor_parallel_size, role["tensor"])
    emitted.check("stages", a.pipeline_parallel_size, role["stages"])
    emitted.check("copies", a.data_parallel_size, role["copies"])
    if "data-parallel-backend" not in " ".join(command):  # Ray finds the nodes itself
        copies = max(1, 8 // (role["tensor"] * role["stages"]))  # of a node of eight devices
        emitted.check("copies here", a.data_parallel_size_local or a.data_parallel_size, min(copies, role["copies"]))
        over_nodes = role["copies"] > copies
        emitted.check("address", a.data_parallel_address, "FIRST_NODE" if over_nodes else None)
        # On the other nodes, as the note says: the same command, headless, its copies behind those before it.
        notes = " ".join(plan["emit"]["notes"])
        emitted.check("note on nodes", f"--headless and --data-parallel-start-rank {copies}·K" in notes, over_nodes)
        for node in range(1, -(-role["copies"] // copies)):
            more = ["--headless", "--data-parallel-start-rank", str(copies * node)]
            parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
            parser.add_argument("--headless", action="store_true")  # of the server, not of the engine
            there = parser.parse_args(["--model", command[2]] + command[3:] + more)
            emitted.check("first copy there", there.data_parallel_start_rank, copies * node)
            emitted.check("copies there", there.data_parallel_size_local, copies)
    emitted.check("users", a.max_num_seqs, role["users_per_copy"])
    emitted.check("length", a.max_model_len, asked["prompt_tokens"] + asked["max_tokens"])
    emitted.check("dtype", a.dtype, {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}[asked["dtype"]])
    print(f"accepted: {' '.join(words[2:])}")
stood_in = [name for name in StandIn.packages if isinstance(sys.modules.get(name), unittest.mock.MagicMock)]
print(f"not installed, a stand-in in their place: {', '.join(stood_in) or 'none'}")
print(f"vLLM {importlib.metadata.version('vllm')}: every command line is accepted and read as the plan says")
