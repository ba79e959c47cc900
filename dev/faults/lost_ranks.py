#!/usr/bin/env python3
"""Runs of four processes (ZeRO 1, sums of four groups) that lose a rank at a random message, again and again.

    dev/faults/lost_ranks.py build/release/bin/tern [--kills 100] [--partitions 14] [--changed 500] [--twice 20] [--seed 1]

kills       a random rank is killed; the run goes on with 2, 4 and 1 ranks in turn, and has to leave the bits of a run that nothing befell
partitions  nothing that a random rank sends arrives any more; the launcher starts again: no step may be committed twice
changed     so many runs, in each of which one random bit of one random message is changed: the step is done once more, or the run ends with 5 and
            goes on, or the bit was of no consequence; each finishes with the bits of none
twice       from a random message on each has a changed bit: the run ends with 5, and goes on to the bits of none
Prints a line for each kind; exit code 1 if any run was not as it should."""
import argparse
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "tests/golden/tokenizers/byte_level"
STEPS = 24


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder, self.number = program, folder, 0
        vocab = len(json.loads((TOKENIZER / "tokenizer.json").read_text())["model"]["vocab"])
        config = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=2 * vocab, hidden_size=16,
                      intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                      max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=True, hidden_act="silu")
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "text.txt").write_text("".join(f"line {i} of {i * i % 7}\n" for i in range(400)))

    def new(self):
        self.number += 1
        return self.folder / f"out-{self.number}"

    def words(self, out):
        return ["train", str(self.folder / "config.json"), "--from-scratch", "--tokenizer", str(TOKENIZER), "--data",
                str(self.folder / "text.txt"), "--output", str(out), "--seq", "8", "--batch", "8", "--micro-batch", "1",
                "--steps", str(STEPS), "--checkpoint-every", "2", "--log-every", "8", "--threads", "1", "--zero", "1",
                "--sum-groups", "4", "--keep-checkpoints", "3"]

    def run(self, words, fault=""):
        env = dict(os.environ, TERN_FAULT=fault, XDG_CACHE_HOME=str(self.folder), OMP_WAIT_POLICY="passive")
        if not fault:
            del env["TERN_FAULT"]
        done = subprocess.run([self.program, *words], env=env, capture_output=True, text=True)
        return done.returncode, done.stderr

    def launch(self, out, fault, more=()):
        return self.run(["launch", "-n", "4", "--comm-timeout", "2", *more, "--", *self.words(out)], fault)

    def goes_on(self, out, ranks):
        return self.run([*self.words(out), "--ranks", str(ranks)])

    def bits(self, out):
        state = out / "checkpoints" / f"step-{STEPS}" / "rank-0.safetensors"
        return hashlib.sha256((out / "model/model.safetensors").read_bytes() + state.read_bytes()).hexdigest()


class Commits(threading.Thread):
    """The files of each committed step, by what the system calls them: a second commit of a step would be another."""

    def __init__(self, out):
        super().__init__(daemon=True)
        self.folder, self.over, self.seen = out / "checkpoints", False, {}

    def run(self):
        while not self.over:
            try:
                for entry in os.scandir(self.folder):
                    if entry.name.startswith("step-") and entry.name[5:].isdigit():
                        self.seen.setdefault(entry.name, set()).add(entry.inode())
            except OSError:
                pass
            time.sleep(0.0005)


def tell(what, count, wrong, more=""):
    print(f"{what}: {count - len(wrong)} of {count} as they should{more}", flush=True)
    for text in wrong[:5]:
        print("  " + text, flush=True)
    return not wrong


def kills(runs, want, count, draw):
    wrong, codes = [], {}
    for i in range(count):
        out, fault = runs.new(), f"die@{draw.randrange(4)}@{draw.randrange(20, 900)}"
        code, said = runs.launch(out, fault)
        codes[code] = codes.get(code, 0) + 1
        ranks = [2, 4, 1][i % 3]
        if code not in (0, 5):
            wrong.append(f"{fault}: {code}: {said[-300:]}")
            continue
        after, said = runs.goes_on(out, ranks)
        if after != 0 or runs.bits(out) != want:
            wrong.append(f"{fault}, then {ranks} ranks: {after}: {said[-300:]}")
    return tell("kills", count, wrong, f" (exit codes {codes})")


def partitions(runs, want, count, draw):
    wrong, commits = [], 0
    for i in range(count):
        out, fault = runs.new(), f"partition@{i % 4}@{draw.randrange(20, 900)}"
        watch = Commits(out)
        watch.start()
        code, said = runs.launch(out, fault, ["--max-restarts", "1"])
        after, said_after = runs.goes_on(out, [4, 2, 1][i % 3])
        watch.over = True
        watch.join()
        commits += len(watch.seen)
        if any(len(inodes) > 1 for inodes in watch.seen.values()):
            wrong.append(f"{fault}: a step was committed twice: {watch.seen}")
        elif code not in (0, 5) or after != 0 or runs.bits(out) != want:
            wrong.append(f"{fault}: {code}, then {after}: {said[-200:]} {said_after[-200:]}")
    return tell("partitions", count, wrong, f" ({commits} commits seen, none of one step twice)" if not wrong else "")


def goes_on_to(runs, want, out, fault, code, said, wrong):
    """A run that ended with 5 because of a changed message goes on; either way its bits are those of none."""
    ended = code == 5 and "was changed on its way" in said
    if ended:
        code, said = runs.goes_on(out, 4)
    if code != 0 or runs.bits(out) != want:
        wrong.append(f"{fault}: {code}: {said[-300:]}")
    return ended


def messages_sent(runs, rank):
    """The messages that a rank sends in a run, by halving: a rank that is to be killed at a later one is not."""
    low, high = 250, 4000  # it sends number `low`, and no number `high`
    while high - low > 1:
        middle = (low + high) // 2
        code, _ = runs.launch(runs.new(), f"die@{rank}@{middle}")
        low, high = (low, middle) if code == 0 else (middle, high)
    return high


def changed(runs, want, count, draw):
    if count == 0:
        return True
    sent = [messages_sent(runs, rank) for rank in range(4)]
    wrong, kinds = [], {"step done again": 0, "ended with 5": 0, "changed nothing": 0}
    for _ in range(count):
        # Before message 250 ranks agree on what to train: no ledger is kept yet, and a bit that changes before its checksum is made is not seen.
        out, rank = runs.new(), draw.randrange(4)
        fault = f"corrupt@{rank}@{draw.randrange(250, sent[rank])}@{draw.randrange(1 << 20)}"
        code, said = runs.launch(out, fault)
        again = said.count("the step is done again")
        if goes_on_to(runs, want, out, fault, code, said, wrong):
            kinds["ended with 5"] += 1
        else:
            kinds["step done again" if again else "changed nothing"] += 1
        if again > 1 or (again and code != 0):
            wrong.append(f"{fault}: {code}, {again} steps done again: {said[-300:]}")
    told = ", ".join(f"{text} {number}" for text, number in kinds.items())
    return tell("changed bits, one a run", count, wrong, f" ({told}; of {sent} messages of each rank)")


def twice(runs, want, count, draw):
    wrong, second = [], 0
    for _ in range(count):
        out, rank, first = runs.new(), draw.randrange(4), draw.randrange(100, 700)
        fault = ",".join(f"corrupt@{rank}@{at}@{draw.randrange(1 << 20)}" for at in range(first, first + 120))
        code, said = runs.launch(out, fault)
        second += "and one of this step had been before" in said
        if not goes_on_to(runs, want, out, fault, code, said, wrong):
            wrong.append(f"from message {first} of rank {rank}: exit code {code}: {said[-300:]}")
    return tell("changed twice", count, wrong, f" ({second} in the second pass of a step)")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    for name, value in (("kills", 100), ("partitions", 14), ("changed", 500), ("twice", 20), ("seed", 1)):
        options.add_argument(f"--{name}", type=int, default=value)
    o = options.parse_args()
    draw = random.Random(o.seed)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(o.program, pathlib.Path(folder))
        out = runs.new()
        code, said = runs.goes_on(out, 1)
        if code != 0:
            sys.exit(f"the run without faults ended with {code}: {said}")
        want = runs.bits(out)
        good = [kills(runs, want, o.kills, draw), partitions(runs, want, o.partitions, draw),
                changed(runs, want, o.changed, draw), twice(runs, want, o.twice, draw)]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
