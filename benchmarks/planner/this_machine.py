#!/usr/bin/env python3
"""Predicted beside measured on this machine: tern profile, then tern plan of training and of inference, tern train and
tern generate, as a person would call them. Each round profiles anew, so that a prediction and what it is held against
met the same neighbours; the last column is the median over the rounds of predicted / measured. Steps and decoded tokens
are medians of a run's. Then the last round's
step, kind by kind: what tern plan predicts beside the spans of tern train --trace (its third step).

  benchmarks/planner/this_machine.py --tokenizer DIR --data TEXT [--tern PROGRAM] [--rounds 3] [--full]
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

MODELS = {  # width, hidden, layers, heads, kv heads
    "15m": (288, 768, 6, 6, 6),
    "60m": (640, 1728, 8, 10, 5),
    "42m": (512, 1408, 8, 8, 8),
    "100m": (768, 2048, 12, 12, 4),
}


def config(shape, vocab):
    width, hidden, layers, heads, kv_heads = shape
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": vocab, "hidden_size": width,
            "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True, "hidden_act": "silu"}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def step_seconds(run_dir, tokens):
    """The median step, the first two left out: pages, generated kernels."""
    rows = [json.loads(line) for line in open(run_dir / "logs" / "metrics.jsonl")]
    rates = [row["perf/tokens_per_s"] for row in rows if row.get("perf/tokens_per_s")]
    return statistics.median(tokens / rate for rate in rates[2:])


def planned_kinds(plan):
    """(kind, pass) → ms, of the table that `tern plan` prints."""
    kinds = {}
    table = plan[plan.index("ms a step"):].splitlines()[1:]
    for row in table:
        words = row.split()
        for name, ms in zip(("forward", "backward", "weights'"), words[1:]):
            kinds[words[0], name] = float(ms)
        if words[0] == "update":
            return kinds
    raise SystemExit("tern plan printed no times by kind")


def traced_kinds(trace):
    """The same of the measured spans: units of a decoder are an embedding, attention and MLP in turn, a head."""
    names = {"FORWARD": "forward", "BACKWARD_INPUT": "backward", "BACKWARD_WEIGHT": "weights'"}
    spans = [e for e in json.load(open(trace))["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
    last = max(e["args"]["unit"] for e in spans)
    kinds = {}
    for e in spans:
        operation, unit = e["name"].split()[0], e["args"]["unit"]
        if operation in ("REDUCE", "NORM", "UPDATE"):
            kinds["update", "forward"] = kinds.get(("update", "forward"), 0) + e["dur"] / 1e3
            continue
        kind = "embedding" if unit == 0 else "head" if unit == last else ("mlp", "attention")[unit % 2]
        key = kind, names[operation]
        kinds[key] = kinds.get(key, 0) + e["dur"] / 1e3
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default="build/release/bin/tern")
    parser.add_argument("--tokenizer", required=True, help="a model directory or tokenizer file")
    parser.add_argument("--data", required=True, help="a text of 1 MB or so")
    parser.add_argument("--vocab", type=int, default=32000, help="ids of the models")
    parser.add_argument("--models", default=",".join(MODELS), help="of " + ", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full", action="store_true", help="the whole profile instead of --quick")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    tern, models = args.tern, args.models.split(",")
    rows = {}  # name → [(predicted, measured)]
    exact, kinds = [], {}

    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        text = here / "prompt.txt"
        text.write_text(open(args.data, encoding="utf-8").read()[:1200])
        for name in models:
            (here / name).mkdir()
            (here / name / "config.json").write_text(json.dumps(config(MODELS[name], args.vocab)))
        for _ in range(args.rounds):
            profile = here / "this.toml"
            run(tern, "profile", "--output", profile, *([] if args.full else ["--quick"]))
            for name in models:
                for dtype in ("f32", "bf16"):
                    model, out = here / name, here / f"run-{name}-{dtype}"
                    plan = run(tern, "plan", model, "--hardware", profile, "--batch", args.batch, "--seq", args.seq,
                               "--dtype", dtype, "--allow-recompute", "none", "--max-micro-batch", args.batch)
                    command = re.search(r"^\S+ train .*(--batch .*)$", plan, re.M).group(1).split()
                    bytes_planned = int(re.search(r"tensors at their most .*?([\d,]+) bytes", plan).group(1).replace(",", ""))
                    planned = json.loads(run(tern, "plan", model, "--hardware", profile, "--batch", args.batch, "--seq",
                                             args.seq, "--dtype", dtype, "--allow-recompute", "none", "--max-micro-batch",
                                             args.batch, "--json"))
                    trained = json.loads(run(
                        tern, "train", model / "config.json", "--from-scratch", "--tokenizer", args.tokenizer, "--data",
                        args.data, "--output", out, "--steps", args.steps, "--checkpoint-every", 0, "--log-every", 1,
                        "--resume", "never", "--trace", here / "trace.json", "--json", *command))
                    kinds[f"train {name} {dtype}"] = planned_kinds(plan), traced_kinds(here / "trace.json")
                    rows.setdefault(f"train {name} {dtype}, s a step", []).append(
                        (planned["predicted"]["step_ps"] * 1e-12, step_seconds(out, args.batch * args.seq)))
                    exact.append((f"train {name} {dtype}, bytes", bytes_planned, trained["counted_peak_bytes"]))
                    written = json.loads(run(tern, "generate", out / "model", "--prompt-file", text, "--max-tokens", 96,
                                             "--ignore-eos", "--dtype", dtype, "--temperature", 0, "--json"))
                    times = written["timings"]
                    serving = json.loads(run(tern, "plan", out / "model", "--inference", "--hardware", profile,
                                             "--prompt-tokens", written["prompt_tokens"], "--max-tokens", 96, "--users", 1,
                                             "--dtype", dtype, "--json"))
                    rows.setdefault(f"prompt {name} {dtype}, s", []).append(
                        (serving["decode"]["prefill_s"], times["prefill_s"]))
                    rows.setdefault(f"decode {name} {dtype}, s a token", []).append(
                        (serving["decode"]["decode_s"], times["decode_step_s"]["median"]))
                    exact.append((f"generate {name} {dtype}, bytes", serving["engine"]["predicted_bytes"],
                                  written["memory"]["peak_bytes"]))
    print(f"{'':34}{'predicted':>12}{'measured':>12}{'ratio':>8}  over {args.rounds} rounds")
    for name, pairs in rows.items():
        ratios = [predicted / measured for predicted, measured in pairs]
        middle = sorted(pairs, key=lambda p: p[0] / p[1])[len(pairs) // 2]
        print(f"{name:34}{middle[0]:12.4g}{middle[1]:12.4g}{statistics.median(ratios):8.2f}  "
              f"{min(ratios):.2f} to {max(ratios):.2f}")
    for name, predicted, measured in dict((e[0], e) for e in exact).values():
        print(f"{name:34}{predicted:12}{measured:12}{predicted / measured:8.4f}")
    for name, (planned, traced) in kinds.items():
        print(f"\n{name + ', ms of one step':34}{'predicted':>12}{'measured':>12}{'ratio':>8}")
        for kind, ms in planned.items():
            measured = traced.get(kind, 0)
            if ms + measured > 0.002 * sum(traced.values()):
                label = kind[0] if kind[0] == "update" else " ".join(kind)
                print(f"  {label:32}{ms:12.2f}{measured:12.2f}{ms / measured if measured else 0:8.2f}")


main()
