#!/usr/bin/env python3
"""Training whose states are three times the memory it may use: the bits of a run that has all of it.

    ninja -C build/release tern
    benchmarks/training/states_on_disk.py --work DIR [--width 512] [--layers 12] [--steps 5] [--share 3]

Weights in bf16, gradients, masters and two moments take 18 bytes a parameter; both runs make activations again (--recompute full). One run keeps all of them in memory. The other has --states
disk, --update-in-backward and a --memory of a third of those bytes, and where this user may make control groups it runs in one with that limit, so that
the system would kill it. Says whether models and checkpoints have the same bits, the highest resident bytes beside the limit, and a step's
time beside its bound: no step is shorter than its states on the disk take, or than the step in memory. Needs Python's library alone.
"""
import argparse, json, os, pathlib, subprocess, sys

import make_case

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUP = pathlib.Path("/sys/fs/cgroup/memory")  # of the first version; else the second's
VOCAB = 32000


def write_case(work: pathlib.Path, width: int, layers: int) -> None:
    work.mkdir(parents=True, exist_ok=True)
    config = make_case.config("15m") | {"hidden_size": width, "intermediate_size": 11 * width // 4, "num_hidden_layers": layers,
                                        "num_attention_heads": width // 64, "num_key_value_heads": width // 64}
    (work / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    if not (work / "data.tokens").exists():
        make_case.write_token_file(work / "data.tokens", VOCAB)


class Limit:
    """A control group of its own with so many bytes of memory; nothing where this user may not make one."""

    def __init__(self, limit: int):
        one = GROUP.is_dir()
        self.path = (GROUP if one else pathlib.Path("/sys/fs/cgroup")) / f"tern-states-{os.getpid()}"
        self.peak_file = "memory.max_usage_in_bytes" if one else "memory.peak"
        try:
            self.path.mkdir()
            (self.path / ("memory.limit_in_bytes" if one else "memory.max")).write_text(str(limit))
        except OSError as error:
            print(f"no control group ({error}): --memory alone holds the run")
            self.path = None

    def enter(self) -> None:
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def end(self) -> int:
        if not self.path:
            return 0
        peak = int((self.path / self.peak_file).read_text())
        self.path.rmdir()
        return peak


def run(a: argparse.Namespace, output: str, *words, limit: Limit = None) -> dict:
    command = [a.tern, "train", "config.json", "--from-scratch", "--data", "data.tokens", "--output", output, "--seq", a.seq, "--batch", a.batch,
               "--steps", a.steps, "--clip", 0, "--dtype", "bf16", "--recompute", "full", "--checkpoint-every", 0, "--resume", "never", "--json", *words]
    done = subprocess.run([str(word) for word in command], cwd=a.work, capture_output=True, text=True, preexec_fn=limit.enter if limit else None)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def same_bytes(a: pathlib.Path, b: pathlib.Path) -> bool:
    with a.open("rb") as x, b.open("rb") as y:
        while True:
            left, right = x.read(1 << 22), y.read(1 << 22)
            if left != right:
                return False
            if not left:
                return True


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    for name, default in (("width", 512), ("layers", 12), ("seq", 128), ("batch", 4), ("steps", 5), ("share", 3)):
        p.add_argument(f"--{name}", type=int, default=default)
    a = p.parse_args()
    write_case(a.work, a.width, a.layers)
    stored = ["--states", "disk", "--update-in-backward"]
    dry = run(a, "planned", *stored, "--dry-run")
    states = 18 * dry["parameters"]
    limit = states // a.share
    print(f"{dry['parameters']:,} parameters: states of {states:,} bytes, a limit of {limit:,}; predicted {dry['predicted_bytes']['total']:,}")
    whole = run(a, "memory")
    group = Limit(limit)
    disk = run(a, "disk", *stored, "--memory", limit, limit=group)
    peak = group.end()
    files = [f"{disk[key].split('/', 1)[1]}/{name}" for key, name in (("model", "model.safetensors"), ("checkpoint", "rank-0.safetensors"))]
    for name in files:
        same = same_bytes(a.work / "memory" / name, a.work / "disk" / name)
        print(f"{name}: {'the same bytes' if same else 'OTHER BYTES'}")
    print(f"memory: resident {disk['peak_resident_bytes']:,}" + (f", control group {peak:,}" if peak else "") + f" of {limit:,}; in memory {whole['peak_resident_bytes']:,}")
    s, step = disk["states"], whole["seconds"] / a.steps
    bound = max(s["disk_step_seconds"], step)
    print(f"disk: {s['disk_bytes_per_s'] / 1e9:.2f} GB/s; a step {s['step_seconds']:.2f} s, of the disk {s['disk_step_seconds']:.2f} s, in memory {step:.2f} s: "
          f"{100 * bound / s['step_seconds']:.0f} % of the bound, {s['waited_seconds'] / a.steps:.2f} s waited")
    print(f"counted: {disk['byte_mismatches']} mismatches; {s['read_bytes']:,} read, {s['written_bytes']:,} written, {a.steps} x {s['bytes']:,} used")


if __name__ == "__main__":
    main()
