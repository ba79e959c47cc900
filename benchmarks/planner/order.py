#!/usr/bin/env python3
"""Whether predictions rank published runs of one job as they were measured: the figures of docs/calibration.md, section
"Order". Interleaved over 1F1B (TorchTitan's table, its plans as they stand there); context ranks over none (NeMo,
Llama-2-7B), whose plans are not stated: the best that tern finds with and without them stand for them.

  benchmarks/planner/order.py [--tern build/release/bin/tern] [--seconds 8]
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

PUBLISHED = pathlib.Path(__file__).resolve().parent / "published"
# Source: NeMo's page on long context, Llama-2-7B on H100: times as fast with context ranks as without, on so many
# devices, 4 million tokens a step.
CONTEXT = {32: (1.03, 32), 64: (1.07, 64), 128: (1.31, 128), 256: (1.40, 256), 512: (5.28, 512), 1024: (20.2, 1024)}
TOKENS = 4 * 2**20


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def calibrate(tern, table, hardware, folder):
    out = folder / (table + ".toml")
    run(tern, "plan", "calibrate", PUBLISHED / (table + ".csv"), "--hardware", hardware, "--output", out)
    return out


def interleaved_over_1f1b(tern, folder):
    table = "torchtitan_h100_fp8"
    rows = json.loads(run(tern, "plan", "table", PUBLISHED / (table + ".csv"), "--calibration",
                          calibrate(tern, table, PUBLISHED / "grand_teton_h100.toml", folder), "--json"))["rows"]
    job = [r for r in rows if r["model"] == "llama-3-405b" and "micro-batch 4" in r["run"]]
    slow, fast = sorted(job, key=lambda r: -r["measured"])
    print("| pair | published | predicted | steps |\n|---|---|---|---|")
    print(f"| interleaved over 1F1B, Llama-3-405B on 512 H100 | {slow['measured'] / fast['measured']:.2f} | "
          f"{slow['predicted'] / fast['predicted']:.2f} | {slow['predicted'] / 1e3:.1f} and "
          f"{fast['predicted'] / 1e3:.1f} s, measured {slow['measured'] / 1e3:.1f} and {fast['measured'] / 1e3:.1f} s |")


def context_over_none(tern, folder, seconds):
    calibration = calibrate(tern, "megatron_core_h100_fp8", "h100", folder)
    for thousands, (published, devices) in CONTEXT.items():
        seq = 1024 * thousands
        plans = [json.loads(run(tern, "plan", "llama-2-7b", "--hardware", "h100", "--nodes", devices // 8, "--seq", seq,
                                "--batch", TOKENS // seq, "--calibration", calibration, "--max-context", most,
                                "--ulysses", "off", "--offload", "none", "--max-seconds", seconds, "--json"))
                 for most in (1, 64)]
        steps = [p["predicted"]["step_ps"] * 1e-12 for p in plans]
        choices = [p["choice"] for p in plans]
        words = " and ".join(f"{s:.2f} s (tp {c['tensor']}, cp {c['context']}, dp {c['data']}, pp {c['stages']})"
                             for s, c in zip(steps, choices))
        print(f"| context ranks over none, Llama-2-7B, {thousands}k on {devices} H100 | {published} | "
              f"{steps[0] / steps[1]:.2f} | {words} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default="build/release/bin/tern")
    parser.add_argument("--seconds", type=int, default=8, help="of each search")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        interleaved_over_1f1b(args.tern, pathlib.Path(folder))
        context_over_none(args.tern, pathlib.Path(folder), args.seconds)


if __name__ == "__main__":
    main()
