#!/usr/bin/env python3
"""LoRA by `tern adapt` beside PEFT: losses of the same steps, tokens a second, and memory beyond the base's weights.

    benchmarks/adapting/beside_peft.py --work DIR --text FILE [--model DIR] [--rounds 3] [--steps 12] [--compare-steps 200] [--coded lc4,q4_0]
        [--quick]

Without --model a model of 1.1 billion parameters (TinyLlama's shape) is drawn at random with the tokenizer --tokenizer. Memory is the highest
resident after the model was read, less the model's own weights. Both begin from one
adapter, read the same windows in the same order, and update by AdamW alike. First the losses of --compare-steps on --compare-model (a small
one; 0: not); then rounds in turn of tern, PEFT eager and PEFT compiled in --dtype on the same threads, medians of steps after the second. Where a
processor has no instructions for bf16 PyTorch's products of it are slow: float32 is PEFT's best there. Fewer --layers of the same widths are
that model's shape in less time. --coded: each round also has tern beside the model put into codes of these types (QLoRA), by `tern
quantize`; beyond the base is there beyond the codes. Needs torch, transformers, peft and safetensors.
"""
import argparse, json, pathlib, statistics, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANK, RATE = 8, 1e-3


def resident(key: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))


def forget_peak() -> None:
    """What reading the model took is not what steps take."""
    import gc
    gc.collect()
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError as error:
        print(f"the peak of memory has the model's reading in it: {error}", file=sys.stderr)


def windows_of(args, model: pathlib.Path):
    """As tern cuts them: seq + 1 tokens from i·seq on, one document, in order."""
    import torch
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(model)
    ids = tokenizer(pathlib.Path(args.text).read_text(encoding="utf-8"), add_special_tokens=False).input_ids
    if tokenizer.bos_token_id is not None and tokenizer("a").input_ids[0] == tokenizer.bos_token_id:
        ids = [tokenizer.bos_token_id] + ids
    ids.append(tokenizer.eos_token_id)
    n = (len(ids) - 1) // args.seq
    return torch.tensor([ids[i * args.seq:i * args.seq + args.seq + 1] for i in range(n)])


def run_peft(args) -> dict:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(args.threads)
    dtype = getattr(torch, args.dtype)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype)
    forget_peak()
    base = sum(p.numel() * p.element_size() for p in {id(p): p for p in model.parameters()}.values())
    model = PeftModel.from_pretrained(model, args.begin, is_trainable=True)
    model.train()
    step_of = torch.compile(model) if args.compiled else model
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    windows, losses, times = windows_of(args, args.model), [], []
    for step in range(args.steps):
        begin = time.perf_counter()
        rows = windows[[(step * args.batch + i) % len(windows) for i in range(args.batch)]]
        logits = step_of(input_ids=rows[:, :-1]).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        times.append(time.perf_counter() - begin)
    return {"losses": losses, "tokens_per_s": args.batch * args.seq / statistics.median(times[2:] or times),
            "beyond": resident("VmHWM") - base, "base": base}


def peft(args, model, begin, steps, dtype, compiled=False) -> dict:
    words = [sys.executable, __file__, "--peft", "--work", args.work, "--text", args.text, "--model", model, "--begin", begin, "--steps",
             steps, "--dtype", dtype, "--threads", args.threads, "--seq", args.seq, "--batch", args.batch]
    done = subprocess.run([str(w) for w in words + (["--compiled"] if compiled else [])], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def tern(args, model, output, steps, dtype, rate=RATE) -> dict:
    out = args.work / output
    subprocess.run(["rm", "-rf", str(out)], check=True)
    words = [args.tern, "adapt", model, "--data", args.text, "--output", out, "--rank", RANK, "--seq", args.seq, "--batch", args.batch,
             "--steps", steps, "--dtype", {"bfloat16": "bf16", "float32": "f32"}[dtype], "--schedule", "constant", "--warmup-steps", 0,
             "--learning-rate", rate, "--weight-decay", 0, "--log-every", 1, "--shuffle", "off", "--threads", args.threads, "--json"]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    report = json.loads(done.stdout)
    rows = [json.loads(line) for line in (out / "logs/metrics.jsonl").read_text().splitlines()]
    values = lambda tag: [row["values"][tag] if "values" in row else row[tag] for row in rows]
    return {"losses": values("train/loss"), "tokens_per_s": statistics.median(values("perf/tokens_per_s")[2:] or [0]),
            "resident": report["peak_resident_bytes"], "adapter": str(out / "adapter")}


def first_adapter(args, model, dtype) -> str:
    """What tern begins with: a step of no length."""
    name = f"begin-{pathlib.Path(model).name}-{dtype}"
    there = args.work / name / "adapter"
    return str(there) if there.exists() else tern(args, model, name, 1, dtype, rate=1e-30)["adapter"]


def draw_model(args) -> pathlib.Path:
    where = args.work / f"drawn-{args.layers}-layers"
    if not (where / "config.json").exists():
        import torch
        from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
        torch.manual_seed(1)
        config = LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=args.layers, num_attention_heads=32,
                             num_key_value_heads=4, max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=False)
        LlamaForCausalLM(config).to(getattr(torch, args.dtype)).save_pretrained(where)
        AutoTokenizer.from_pretrained(args.tokenizer).save_pretrained(where)
    return where


def coded_model(args, model, kind) -> pathlib.Path:
    """Its codes: a GGUF file, or a directory for types of tern's own."""
    where = args.work / f"coded-{pathlib.Path(model).name}-{kind}{'.gguf' if kind.startswith('q') else ''}"
    if not where.exists():
        how = ["--method", "lcq", "--bits", kind[2:], "--data", args.text] if kind.startswith("lc") else ["--type", kind]
        subprocess.run([str(w) for w in [args.tern, "quantize", model, *how, "--output", where, "--threads", args.threads]], check=True)
    return where


def bytes_of(model: pathlib.Path) -> int:
    return sum(f.stat().st_size for f in ([model] if model.is_file() else model.glob("*.safetensors")))


def compare_losses(args) -> None:
    small = args.compare_model
    begin = first_adapter(args, small, "float32")
    ours, theirs = (f["losses"] for f in (tern(args, small, "compared", args.compare_steps, "float32"),
                                          peft(args, small, begin, args.compare_steps, "float32")))
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True))
    print(f"{len(ours)} steps of {small}: losses {ours[-1]:.4f} and {theirs[-1]:.4f} at the end, at most {100 * worst:.3f} % apart\n", flush=True)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--text", required=True)
    p.add_argument("--model")
    p.add_argument("--compare-model", default=ROOT / "examples/novels-6m")
    p.add_argument("--tokenizer", default=ROOT / "examples/novels-6m", help="a directory, for a model that is drawn")
    p.add_argument("--quick", action="store_true", help="few steps of the small model alone: minutes, to see that it runs")
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--compare-steps", type=int, default=200)
    p.add_argument("--seq", type=int, default=512)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--layers", type=int, default=22, help="of a model that is drawn")
    p.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of the rounds")
    p.add_argument("--coded", default="", metavar="TYPES", help="types of tern quantize, and lc2, lc3, lc4: tern beside these too")
    p.add_argument("--begin", help=argparse.SUPPRESS)
    for name in ("--peft", "--compiled"):
        p.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.peft:
        print(json.dumps(run_peft(args)))
        return 0
    if args.quick:
        args.model, args.rounds, args.steps, args.compare_steps, args.seq, args.batch = args.compare_model, 1, 5, 10, 64, 2
    args.work.mkdir(parents=True, exist_ok=True)
    if args.compare_steps > 0:
        compare_losses(args)
    if args.rounds == 0:
        return 0
    model, dtype = args.model or draw_model(args), args.dtype
    begin, found = first_adapter(args, model, dtype), {"tern": [], "PEFT": [], "PEFT compiled": []}
    coded = {kind: coded_model(args, model, kind) for kind in filter(None, args.coded.split(","))}
    found |= {f"tern beside {kind}": [] for kind in coded}
    for _ in range(args.rounds):  # in turn, so that what else the machine does falls on all
        found["tern"].append(tern(args, model, "timed", args.steps, dtype))
        for kind, base in coded.items():
            found[f"tern beside {kind}"].append(tern(args, base, f"timed-{kind}", args.steps, dtype))
        found["PEFT"].append(peft(args, model, begin, args.steps, dtype))
        found["PEFT compiled"].append(peft(args, model, begin, args.steps, dtype, compiled=True))
    for run in found["tern"]:
        run["beyond"] = run["resident"] - found["PEFT"][0]["base"]
    for kind, base in coded.items():
        for run in found[f"tern beside {kind}"]:
            run["beyond"] = run["resident"] - bytes_of(base)
    print("| | tokens/s | of each round | resident beyond the base, MiB |\n|---|---|---|---|")
    for name, runs in found.items():
        rates = [run["tokens_per_s"] for run in runs]
        print(f"| {name} | {statistics.median(rates):.1f} | {', '.join(f'{r:.1f}' for r in rates)} | "
              f"{statistics.median(run['beyond'] for run in runs) / 2**20:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
