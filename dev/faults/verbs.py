#!/usr/bin/env python3
"""Every verb that writes a file: two at once on one output, killed at random moments, and with a system call that fails.

    dev/faults/verbs.py build/release/bin/tern [--pairs 200] [--kills 300] [--faults 300] [--only VERB,…] [--seed 1]

pairs   of each verb, half of equal and half of unlike commands: one wins or both succeed, the output is whole and one of
        those that succeeded, nothing lies beside it
kills   spread over all verbs: what is there after a kill is nothing or the whole; the same command then leaves the undisturbed
        bytes and nothing beside them
faults  spread over all verbs: the n-th call that writes below the output's folder fails (EIO, ENOSPC, or half a write and then
        EIO); the exit code says so, or the output is whole; then as with a kill
Files that differ between two undisturbed runs (clocks in a log) are not compared; they are named. A line for each verb and kind;
the seed of what failed is printed; exit code 1 if anything was not as it should. Needs a C compiler for the faults."""
import argparse
import errno
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RUN_DIRECTORY, FILE, NEW = "a run goes on", "written over", "refused where it is there"


class Verb:
    def __init__(self, name, one, other, output, rule, keep=None):
        self.name, self.one, self.other, self.output, self.rule, self.keep = name, one, other, output, rule, keep


def prepare(tern, root):
    """Texts, a tokenizer, two tiny models, two adapters, questions, runs: what verbs read."""
    (root / "a.txt").write_text("".join(f"line {i} of the first text, with words.\n" for i in range(1500)))
    (root / "b.txt").write_text("".join(f"{i * 7} is another number and another text;\n" for i in range(1500)))
    (root / "few.txt").write_text("one\ntwo\nthree\n")
    (root / "other.txt").write_text("four\nfive\n")
    (root / "prompts.jsonl").write_text("".join(json.dumps({"id": str(i), "prompt": f"line {i}"}) + "\n" for i in range(6)))
    (root / "prompts2.jsonl").write_text("".join(json.dumps({"id": str(i), "prompt": f"{i} is"}) + "\n" for i in range(5)))
    (root / "config.json").write_text(json.dumps(dict(model_type="llama", vocab_size=300, hidden_size=32, intermediate_size=48,
                                                      num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64)))
    (root / "task.jsonl").write_text("".join(json.dumps(dict(prompt=f"line {i}", choices=[" of", " number"], answer=i % 2)) + "\n" for i in range(8)))
    (root / "task2.jsonl").write_text("".join(json.dumps(dict(prompt=f"{i} is", choices=[" of", " number"], answer=i % 2)) + "\n" for i in range(5)))

    def run(*words):
        done = subprocess.run([tern, *words], cwd=root, capture_output=True, text=True, env=environment(root))
        if done.returncode:
            raise SystemExit(f"verbs.py: preparing: tern {' '.join(words)}: {done.returncode}: {done.stderr}")

    run("tokenize", "--train", "--input", "a.txt", "--vocab-size", "300", "--output", "tok")
    for name in ("m1", "m2"):
        run("train", "config.json", "--from-scratch", "--tokenizer", "tok", "--data", "a.txt", "--seq", "16", "--batch", "2", "--steps", "2",
            "--seed", name[1], "--output", name, "--threads", "1")
        run("adapt", f"{name}/model", "--data", "a.txt", "--seq", "16", "--batch", "2", "--steps", "1", "--rank", "2", "--output", "ad" + name, "--threads", "1")


def environment(root, **more):
    return dict(os.environ, XDG_CACHE_HOME=str(root / "cache"), OMP_WAIT_POLICY="passive", **{k: str(v) for k, v in more.items()})


def verbs_of(root):
    r = str(root)
    m1, m2, tok, a, b = r + "/m1/model", r + "/m2/model", r + "/tok", r + "/a.txt", r + "/b.txt"

    def train(data, seed):
        return ["train", r + "/config.json", "--from-scratch", "--tokenizer", tok, "--data", data, "--seq", "16", "--batch", "2", "--steps", "4",
                "--checkpoint-every", "2", "--seed", seed, "--threads", "1"]

    def adapt(data, seed):
        return ["adapt", m1, "--data", data, "--seq", "16", "--batch", "2", "--steps", "3", "--rank", "2", "--seed", seed, "--checkpoint-every", "1", "--threads", "1"]

    def plan(batch):
        return ["plan", "gpt2", "--hardware", "a100-80g", "--batch", batch, "--seq", "1024", "--schedules", "1f1b"]

    def calibrate(software):
        return ["plan", "calibrate", str(HERE.parents[1] / "benchmarks/planner/published/megatron_a100_f16.csv"), "--hardware", "a100-80g",
                "--software", software]

    return [
        Verb("train", train(a, "1"), train(b, "2"), "run", RUN_DIRECTORY, ("model/", "checkpoints/")),
        Verb("adapt", adapt(a, "1"), adapt(b, "2"), "run", RUN_DIRECTORY, ("adapter/",)),
        Verb("adapt merge", ["adapt", "merge", m1, r + "/adm1/adapter"], ["adapt", "merge", m2, r + "/adm2/adapter"], "merged", NEW),
        Verb("adapt combine", ["adapt", "combine", "--adapter", r + "/adm1/adapter", "--adapter", r + "/adm2/adapter", "--shares", "1,0.5"],
             ["adapt", "combine", "--adapter", r + "/adm1/adapter", "--adapter", r + "/adm2/adapter", "--shares", "0.2,0.5"], "both", NEW),
        Verb("adapt extract", ["adapt", "extract", m1, m2, "--rank", "2"], ["adapt", "extract", m1, m2, "--rank", "3"], "difference", NEW),
        Verb("new", ["new", "--layers", "2", "--width", "32", "--heads", "2", "--tokenizer", tok],
             ["new", "--layers", "3", "--width", "32", "--heads", "2", "--tokenizer", tok], "fresh", NEW),
        Verb("tokenize pack", ["tokenize", tok, "--pack", "--input", a], ["tokenize", tok, "--pack", "--input", b], "packed", FILE),
        Verb("tokenize", ["tokenize", tok, "--input", a], ["tokenize", tok, "--input", b], "ids.txt", FILE),
        Verb("tokenize train", ["tokenize", "--train", "--input", a, "--vocab-size", "280"], ["tokenize", "--train", "--input", b, "--vocab-size", "290"],
             "new-tok", NEW),
        Verb("export gguf", ["export", m1, "--format", "gguf"], ["export", m2, "--format", "gguf"], "x.gguf", NEW),
        Verb("export hf", ["export", m1, "--format", "hf"], ["export", m2, "--format", "hf", "--dtype", "bf16"], "hf", NEW),
        Verb("quantize", ["quantize", m1, "--type", "q4_0"], ["quantize", m2, "--type", "q8_0"], "q.gguf", NEW),
        Verb("embed", ["embed", m1, "--input", r + "/few.txt", "--pooling", "mean"], ["embed", m2, "--input", r + "/other.txt", "--pooling", "mean"],
             "v.npy", NEW),
        Verb("eval", ["eval", m1, "--task", r + "/task.jsonl"], ["eval", m1, "--task", r + "/task2.jsonl"], "results.jsonl", RUN_DIRECTORY),
        Verb("generate", ["generate", m1, "--prompts", r + "/prompts.jsonl", "--max-tokens", "5"],
             ["generate", m1, "--prompts", r + "/prompts2.jsonl", "--max-tokens", "5"], "answers.jsonl", RUN_DIRECTORY),
        Verb("compare", ["compare", r + "/m1", r + "/m2"], ["compare", r + "/m2", r + "/m1"], "c.html", FILE),
        Verb("plan", plan("32"), plan("64"), "plan.json", FILE),
        Verb("plan calibrate", calibrate("A"), calibrate("B"), "machine.toml", FILE),
        Verb("launch", ["launch", "-n", "2", "--", *train(a, "1")], ["launch", "-n", "2", "--", *train(b, "2")], "run", RUN_DIRECTORY,
             ("model/", "checkpoints/")),
    ]


class Trial:
    def __init__(self, tern, root, seed):
        self.tern, self.root, self.random, self.bad = tern, root, random.Random(seed), 0
        self.folder = root / "there"

    def fresh(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def words(self, verb, arguments):
        return [self.tern, *arguments, "--output", str(self.folder / verb.output)]

    def run(self, verb, arguments, **environ):
        done = subprocess.run(self.words(verb, arguments), cwd=self.root, capture_output=True, text=True, env=environment(self.root, **environ))
        return done.returncode, done.stderr

    def content(self, verb):
        """Relative names and checksums of what is there; None: nothing."""
        path = self.folder / verb.output
        if not path.exists():
            return None
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        names = {str(p.relative_to(self.folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
        if verb.keep:
            names = {n: h for n, h in names.items() if n.removeprefix(verb.output + "/").startswith(verb.keep)}
        return {n: h for n, h in names.items() if n not in verb.left_out}

    def undisturbed(self, verb, arguments):
        seen, began = [], time.monotonic()
        for _ in range(2):
            self.fresh()
            code, said = self.run(verb, arguments)
            if code:
                raise SystemExit(f"verbs.py: {verb.name}: an undisturbed run ended with {code}: {said}")
            seen.append(self.content(verb))
            if [p.name for p in self.folder.iterdir()] != [verb.output]:
                self.fail(verb, "undisturbed", f"left {sorted(p.name for p in self.folder.iterdir())}")
        verb.seconds = (time.monotonic() - began) / 2
        differ = {n for n in seen[0].keys() | seen[1].keys() if seen[0].get(n) != seen[1].get(n)}
        if differ:
            verb.left_out |= differ
            print(f"  {verb.name}: two undisturbed runs differ in {sorted(differ)}: not compared")
        return {n: h for n, h in seen[0].items() if n not in verb.left_out}

    def fail(self, verb, what, why):
        self.bad += 1
        print(f"FAILED {verb.name}, {what}: {why}")

    def leftovers(self, verb):
        return sorted(p.name for p in self.folder.iterdir() if p.name != verb.output)

    def goes_on(self, verb, want, what):
        """The same command again: the undisturbed bytes, nothing beside them."""
        there = self.content(verb)
        code, said = self.run(verb, verb.one)
        refused = code == 2 and verb.rule == NEW and there == want
        if code and not refused:
            return self.fail(verb, what, f"the rerun ended with {code}: {said[-600:]}")
        if self.content(verb) != want:
            return self.fail(verb, what, "the rerun left other bytes")
        if not refused and self.leftovers(verb):
            self.fail(verb, what, f"the rerun left {self.leftovers(verb)} beside the output")

    def races(self, verb, pairs):
        one, other, both = self.undisturbed(verb, verb.one), self.undisturbed(verb, verb.other), 0
        one, other = ({n: h for n, h in w.items() if n not in verb.left_out} for w in (one, other))
        if one == other:
            return self.fail(verb, "races", "two unlike commands leave the same bytes")
        for pair in range(pairs):
            self.fresh()
            alike = pair % 2 == 0
            two = [subprocess.Popen(self.words(verb, w), cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                    env=environment(self.root)) for w in (verb.one, verb.one if alike else verb.other)]
            said = [p.communicate()[1] for p in two]
            codes = [p.returncode for p in two]
            both += codes == [0, 0]
            allowed = [w for w, code in zip((one, one if alike else other), codes) if code == 0]
            if not allowed or any(c < 0 or c >= 128 or c == 1 for c in codes):
                self.fail(verb, f"pair {pair}", f"ended with {codes}: {said}")
            elif self.content(verb) not in allowed:
                self.fail(verb, f"pair {pair}", f"neither's bytes, codes {codes}: {said}")
            elif self.leftovers(verb):
                self.fail(verb, f"pair {pair}", f"left {self.leftovers(verb)}")
        print(f"{verb.name}: {pairs} pairs, in {both} both succeeded")

    def partly(self, verb, want, what):
        """Where a run goes on from what is there, parts of it may be there; elsewhere nothing or all."""
        found = self.content(verb)
        if verb.rule != RUN_DIRECTORY and found is not None and found != want:
            self.fail(verb, what, "what is there is neither nothing nor the whole")

    def kill(self, verb, kills):
        want, hit = self.undisturbed(verb, verb.one), 0
        for k in range(kills):
            self.fresh()
            child = subprocess.Popen(self.words(verb, verb.one), cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(self.root))
            time.sleep(self.random.uniform(0, 1.1) * verb.seconds)
            child.kill()
            hit += child.wait() != 0
            self.partly(verb, want, f"kill {k}")
            self.goes_on(verb, want, f"kill {k}")
        print(f"{verb.name}: {kills} kills, {hit} before the end")

    def fault(self, verb, faults, library):
        want, told, codes = self.undisturbed(verb, verb.one), self.root / "count", {}
        told.unlink(missing_ok=True)
        self.fresh()
        self.run(verb, verb.one, LD_PRELOAD=library, FAULT_FOLDER=self.folder, FAULT_COUNT=told)
        calls = max((int(line) for line in told.read_text().split()), default=0) if told.exists() else 0
        if not calls:
            return self.fail(verb, "faults", "no call of it was seen; is the program linked statically?")
        for _ in range(faults):
            at, kind = self.random.randint(1, calls), self.random.choice(["EIO", "ENOSPC", "half"])
            what = f"{kind} at call {at} of {calls}"
            self.fresh()
            code, said = self.run(verb, verb.one, LD_PRELOAD=library, FAULT_FOLDER=self.folder, FAULT_AT=at, FAULT_SHORT=int(kind == "half"),
                                  FAULT_ERRNO=errno.EIO if kind == "half" else getattr(errno, kind))
            codes[code] = codes.get(code, 0) + 1
            if code < 0 or code >= 128 or code == 1:
                self.fail(verb, what, f"ended with {code}: {said[-600:]}")
            if code == 0 and self.content(verb) != want:
                self.fail(verb, what, "exit code 0, and not the undisturbed bytes")
            self.partly(verb, want, what)
            self.goes_on(verb, want, what)
        print(f"{verb.name}: {faults} faults among {calls} calls, exit codes {dict(sorted(codes.items()))}")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("tern")
    parse.add_argument("--pairs", type=int, default=200, help="of each verb")
    parse.add_argument("--kills", type=int, default=300, help="over all verbs")
    parse.add_argument("--faults", type=int, default=300, help="over all verbs")
    parse.add_argument("--only", default="", help="verbs, by commas")
    parse.add_argument("--seed", type=int, default=1)
    asked = parse.parse_args()
    tern = str(pathlib.Path(asked.tern).resolve())
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tern-verbs-") as name:
        root = pathlib.Path(name).resolve()
        prepare(tern, root)
        library = str(root / "failing_calls.so")
        if asked.faults:
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, str(HERE / "failing_calls.c"), "-ldl", "-lpthread"], check=True)
        verbs = [v for v in verbs_of(root) if not asked.only or v.name in asked.only.split(",")]
        trial = Trial(tern, root, asked.seed)
        for i, verb in enumerate(verbs):
            verb.left_out = set()
            share = [n // len(verbs) + (i < n % len(verbs)) for n in (asked.kills, asked.faults)]
            if asked.pairs:
                trial.races(verb, asked.pairs)
            if share[0]:
                trial.kill(verb, share[0])
            if share[1]:
                trial.fault(verb, share[1], library)
            sys.stdout.flush()
    print("all as it should be" if not trial.bad else f"{trial.bad} not as they should be; seed {asked.seed}")
    return 1 if trial.bad else 0


if __name__ == "__main__":
    sys.exit(main())
