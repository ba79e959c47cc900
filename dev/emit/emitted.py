"""What `tern plan --emit FRAMEWORK` writes for a set of cases: shared by the check_*.py beside it."""
import json
import os
import subprocess
import sys

# Model, machine, nodes, batch, sequence, further options: each axis of what is emitted occurs.
CASES = {
    "megatron": [
        ("llama-2-7b", "h100", 1, 64, 4096, []),
        ("llama-2-13b", "h100", 2, 64, 4096, ["--fix", "tp=4,pp=2,zero=1,recompute=full"]),
        ("llama-3-8b", "h100", 1, 16, 8192, ["--fix", "tp=2,cp=2,dp=2,recompute=none"]),
        ("llama-3-8b", "h100", 1, 16, 8192, ["--fix", "cp=4,cp-by=ulysses"]),
        ("llama-3-8b", "h100", 1, 16, 8192, ["--fix", "tp=2,dp=4", "--tp-comm-overlap"]),
        ("llama-3-8b", "h100", 1, 32, 8192, ["--fix", "dp=8,zero=3"]),
        ("llama-3-8b", "h100", 1, 32, 8192, ["--fix", "dp=8,zero=2"]),
        ("llama-3-70b", "h100", 8, 256, 8192, ["--fix", "schedule=interleaved,pp=4,tp=8", "--gradients", "bf16"]),
        ("mixtral-8x7b", "h100", 4, 128, 4096, ["--fix", "ep=8,tp=1"]),
        ("gpt2-xl", "a100-80g", 1, 64, 1024, ["--optimizer", "sgd", "--dtype", "f16"]),
    ],
    "torchtitan": [
        ("llama-3-8b", "h100", 1, 64, 8192, []),
        ("llama-3-8b", "h100", 1, 64, 8192, ["--fix", "dp=8,zero=2,recompute=full"]),
        ("llama-3-8b", "h100", 1, 64, 8192, ["--fix", "pp=2,schedule=1f1b,tp=2,dp=2"]),
        ("llama-3-8b", "h100", 1, 16, 8192, ["--fix", "cp=2,tp=4"]),
        ("llama-3-70b", "h100", 8, 256, 8192, ["--fix", "tp=8,pp=4,schedule=interleaved,zero=3"]),
        ("llama-3-70b", "h100", 8, 256, 8192, ["--fix", "tp=8,pp=4,schedule=zb-v"]),
        ("llama-3-8b", "h100", 1, 16, 8192, ["--fix", "pp=2,tp=4,schedule=gpipe,recompute=full"]),
    ],
    "deepspeed": [
        ("llama-2-7b", "h100", 1, 64, 4096, []),
        ("llama-2-7b", "h100", 1, 64, 4096, ["--fix", "zero=3"]),
        ("llama-2-7b", "h100", 1, 64, 4096, ["--fix", "tp=4,zero=1"]),
        ("llama-3-8b", "h100", 2, 64, 4096, ["--fix", "zero=2", "--dtype", "f16"]),
        ("llama-2-13b", "h100", 1, 64, 4096, ["--fix", "zero=2,states=host"]),
    ],
}


def emitted(tern, framework):
    """Yields (words of the question, plan with its report)."""
    for model, machine, nodes, batch, seq, more in CASES[framework]:
        words = [tern, "plan", model, "--hardware", machine, "--nodes", str(nodes), "--batch", str(batch)]
        words += ["--seq", str(seq), "--emit", framework, "--json", "--max-seconds", "20"] + more
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
        yield " ".join(words[2:]), json.loads(done.stdout)


def arguments(doc):
    parser = __import__("argparse").ArgumentParser(description=doc)
    parser.add_argument("--tern", default=os.path.join(os.path.dirname(__file__), "../../tern"))
    parser.add_argument("--path", action="append", default=[], help="folder of packages; may be given again")
    given = parser.parse_args()
    sys.path[:0] = given.path
    return given


def check(name, is_, want):
    if is_ != want:
        sys.exit(f"{name}: the framework reads {is_!r}, the plan says {want!r}")
