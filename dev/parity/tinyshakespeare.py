"""The same training by tern and by PyTorch: same first weights, same batches, same schedule; validation loss side by side.

  python dev/parity/tinyshakespeare.py prepare TEXT OUT      split the text 90/10, make the tokenizer and the first weights
  python dev/parity/tinyshakespeare.py tern OUT f32|bf16     ./tern train … (resumes; the command is printed)
  python dev/parity/tinyshakespeare.py torch OUT f32|bf16    the reference on the same batches (resumes)
  python dev/parity/tinyshakespeare.py report OUT FILE.svg   largest difference per dtype and one plot of the four curves

A 10M Llama, 32 x 256 tokens a step, AdamW, peak rate 1e-3 after 100 steps of warm-up, cosine to 1e-4, 600 steps.
Both sides write OUT/RUN/logs/metrics.jsonl. bf16 of the reference is autocast over f32 weights.
"""
import json
import math
import pathlib
import subprocess
import sys
import time

SEQ, BATCH, STEPS, WARMUP, PEAK, LOW, SEED = 256, 32, 600, 100, 1e-3, 1e-4, 1
EVAL_EVERY, EVAL_BATCHES, CLIP = 50, 4, 1.0
CONFIG = dict(vocab_size=1024, hidden_size=320, intermediate_size=864, num_hidden_layers=8, num_attention_heads=5,
              num_key_value_heads=5, head_dim=64, max_position_embeddings=SEQ, rms_norm_eps=1e-5, tie_word_embeddings=True)
TERN = pathlib.Path(__file__).resolve().parents[2] / "tern"


def tern(*arguments):
    print("$ ./tern", *arguments, flush=True)
    subprocess.run([TERN, *map(str, arguments)], check=True)


def prepare(text, out):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    out.mkdir(parents=True, exist_ok=True)
    data = text.read_bytes()
    cut = data.rindex(b"\n\n", 0, len(data) * 9 // 10) + 2
    (out / "train.txt").write_bytes(data[:cut])
    (out / "valid.txt").write_bytes(data[cut:])
    tern("tokenize", "--train", "--vocab-size", CONFIG["vocab_size"], "--input", out / "train.txt", "--output", out / "init")
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(LlamaConfig(**CONFIG))
    model.save_pretrained(out / "init")
    print(sum(p.numel() for p in model.parameters()), "parameters")


def run_tern(out, dtype):
    tern("train", out / "init", "--data", out / "train.txt", "--valid-data", out / "valid.txt", "--output", out / f"tern-{dtype}",
         "--dtype", dtype, "--seq", SEQ, "--batch", BATCH, "--steps", STEPS, "--warmup-steps", WARMUP, "--learning-rate", PEAK,
         "--min-learning-rate", LOW, "--schedule", "cosine", "--seed", SEED, "--clip", CLIP, "--beta1", 0.9, "--beta2", 0.95,
         "--weight-decay", 0.1, "--eval-every", EVAL_EVERY, "--eval-batches", EVAL_BATCHES, "--log-every", 10,
         "--checkpoint-every", 50)


# --- tern's order of windows: base/rng.cpp and train/feed.cpp, written again ---

M32, M64 = 2**32 - 1, 2**64 - 1


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def hash_name(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & M64
    return h


def permutation(seed, stream, index, size):
    """random_permutation of base/rng.cpp: a Feistel network with cycle walking."""
    half = 1
    while half < 32 and (1 << (2 * half)) < size:
        half += 1
    mask, value = (1 << half) - 1, index
    while True:
        left, right = value >> half, value & mask
        for lane in range(1, 7):
            counter = [right & M32, right >> 32, stream & M32, (stream >> 32) ^ lane]
            left, right = right, left ^ (philox(counter, [seed & M32, seed >> 32])[0] & mask)
        value = (left << half) | right
        if value < size:
            return value


def window_of(sample, num_windows):
    """Feed::window_of of train/feed.cpp."""
    epoch, index = divmod(sample, num_windows)
    return permutation(SEED, (hash_name("train/feed") + epoch * 0x9E3779B97F4A7C15) & M64, index, num_windows)


def learning_rate(step):
    """learning_rate of train/schedule.cpp; step counts from 1."""
    if step <= WARMUP:
        return PEAK * step / WARMUP
    return LOW + (PEAK - LOW) * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def run_torch(out, dtype):
    import torch
    from safetensors.torch import load_file
    from transformers import LlamaForCausalLM

    def tokens_of(name):
        tokens = out / f"{name}.tokens"
        if not tokens.exists():
            tern("tokenize", out / "init", "--pack", "--input", out / f"{name}.txt", "--output", tokens)
        data = load_file(tokens)
        assert len(data["documents"]) == 2, "one document: no borders inside the windows"
        return data["tokens"].to(torch.int64)

    torch.set_num_threads(2)
    train, valid = tokens_of("train"), tokens_of("valid")
    model = LlamaForCausalLM.from_pretrained(out / "init", dtype=torch.float32, attn_implementation="sdpa")
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=PEAK, betas=(0.9, 0.95), eps=1e-8)

    def windows(data, chosen):
        rows = torch.stack([data[w * SEQ:w * SEQ + SEQ + 1] for w in chosen])
        return rows[:, :-1], rows[:, 1:].clone()

    def loss_of(inputs, targets, reduction="mean"):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            logits = model(inputs).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction=reduction)

    def evaluate():
        num_windows = (len(valid) - 1) // SEQ
        count = min(num_windows, EVAL_BATCHES * BATCH)
        total = 0.0
        with torch.no_grad():
            for begin in range(0, count, BATCH):
                chosen = [num_windows * i // count for i in range(begin, min(begin + BATCH, count))]
                total += float(loss_of(*windows(valid, chosen), reduction="sum"))
        return total / (count * SEQ)

    num_windows = (len(train) - 1) // SEQ
    logs = out / f"torch-{dtype}" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    saved, first = out / f"torch-{dtype}" / "state.pt", 1
    if saved.exists():  # goes on where it was stopped: the log is cut back to the saved step
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
        rows = [line for line in open(logs / "metrics.jsonl") if json.loads(line)["step"] < first]
        (logs / "metrics.jsonl").write_text("".join(rows))
    with open(logs / "metrics.jsonl", "a" if saved.exists() else "w") as log:
        for step in range(first, STEPS + 1):
            began = time.time()
            chosen = [window_of((step - 1) * BATCH + i, num_windows) for i in range(BATCH)]
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step)
            loss = loss_of(*windows(train, chosen))
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
            row = {"step": step, "time": time.time(), "train/loss": float(loss), "train/lr": learning_rate(step),
                   "train/grad_norm": float(norm), "perf/tokens_per_s": BATCH * SEQ / (time.time() - began)}
            if step % EVAL_EVERY == 0 or step == STEPS:
                row["eval/loss"] = evaluate()
            if step % 10 == 0 or step <= 3:
                log.write(json.dumps(row) + "\n")
                log.flush()
                print(row, flush=True)
            if step % EVAL_EVERY == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{saved}.new")
                pathlib.Path(f"{saved}.new").replace(saved)


def curve(out, run):
    rows = [json.loads(line) for line in open(out / run / "logs" / "metrics.jsonl")]
    names = ("eval/held-out/loss", "eval/loss")  # tern's, the reference's
    return {row["step"]: row[name] for row in rows for name in names if name in row}


def report(out, picture):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for dtype, line in (("f32", "-"), ("bf16", "--")):
        mine, theirs = curve(out, f"tern-{dtype}"), curve(out, f"torch-{dtype}")
        steps = sorted(mine.keys() & theirs.keys())
        worst = max(steps, key=lambda s: abs(mine[s] / theirs[s] - 1))
        print(f"{dtype}: {len(steps)} evaluations, largest difference {mine[worst] / theirs[worst] - 1:+.4%} at step {worst}; "
              f"last {mine[steps[-1]]:.5f} (tern) {theirs[steps[-1]]:.5f} (torch)")
        axes.plot(steps, [mine[s] for s in steps], line, label=f"tern {dtype}", color="#0a6")
        axes.plot(steps, [theirs[s] for s in steps], line, label=f"torch {dtype}", color="#c40")
    axes.set(xlabel="step", ylabel="validation loss (nats per token)", title="10M Llama on tinyshakespeare: same weights, same batches")
    axes.legend()
    figure.savefig(picture)


if __name__ == "__main__":
    verb, out = sys.argv[1], pathlib.Path(sys.argv[3] if sys.argv[1] == "prepare" else sys.argv[2])
    if verb == "prepare":
        prepare(pathlib.Path(sys.argv[2]), out)
    else:
        {"tern": run_tern, "torch": run_torch, "report": report}[verb](out, sys.argv[3])
