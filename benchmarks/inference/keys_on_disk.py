#!/usr/bin/env python3
"""Many long texts of a model larger than its memory: keys and values in memory, on the disk, and where tern puts them.

    ninja -C build/release tern
    benchmarks/inference/keys_on_disk.py --work DIR --kv-dir DIR [--texts 64] [--prompt 192] [--tokens 64] [--shares 0.3,0.6,0.9]

For each share of the matrices that stream for one text, the same prompts are continued with `--kv-place memory`, `disk` and `auto`; tern chooses how
many run at a time. Rows have what it chose, the bytes of a step that it foretold, the bytes of keys and values that it counted, and tokens a second over the
whole run, prompts included. Answers must be the same bytes. Needs numpy, which writes the model's random numbers.
"""
import argparse, json, pathlib, random, re, subprocess, sys, time

import batch_formula, shapes


def prompts(a: argparse.Namespace) -> pathlib.Path:
    draw = random.Random(1)
    file = a.work / f"texts-{a.texts}-{a.prompt}.jsonl"
    letters = "etaoinshrdlu "
    file.write_text("".join(json.dumps("".join(draw.choices(letters, k=a.prompt))) + "\n" for _ in range(a.texts)))
    return file


def run(a: argparse.Namespace, file: pathlib.Path, memory: int, place: str) -> dict:
    command = [a.tern, "generate", a.work / "model", "--prompts", file, "--max-tokens", a.tokens, "--ignore-eos", "--memory", memory, "--kv-place", place]
    if place != "memory":
        command += ["--kv-dir", a.kv_dir]
    begin = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        return {"refused": done.stderr.strip().splitlines()[0][:150]}
    said = lambda pattern: next(iter(re.findall(pattern, done.stderr)), "")
    return {"answers": done.stdout, "seconds": time.monotonic() - begin, "batch": said(r"up to (\d+) at a time"), "layers": said(r"keys and values of (\d+) of"),
            "weights": said(r"in memory, ([\d.]+ \w+) of [\d.]+ \w+ are read for each token"), "moved": said(r"layers on disk: (.*)"), "tok/s": said(r"tokens in [^:]*: ([\d.]+) tok/s"),
            "exact": "as planned, to the byte" in done.stderr}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--kv-dir", type=pathlib.Path, required=True, help="on the disk that holds --work")
    p.add_argument("--tern", type=pathlib.Path, default=batch_formula.ROOT / "build/release/bin/tern")
    p.add_argument("--tokenizer", type=pathlib.Path, default=batch_formula.ROOT / "tests/golden/tokenizers/byte_level")
    p.add_argument("--texts", type=int, default=64)
    p.add_argument("--prompt", type=int, default=192, help="letters of each prompt")
    p.add_argument("--tokens", type=int, default=64, help="of each continuation")
    p.add_argument("--shares", default="0.3,0.6,0.9")
    p.add_argument("--base", type=int, default=110 << 20, help="bytes for the program itself, its ring and what threads keep")
    a = p.parse_args()
    batch_formula.write_case(a)
    matrices = (a.work / "model/model.safetensors").stat().st_size - 2 * shapes.VOCABULARY * batch_formula.SHAPE["width"]
    file, answers = prompts(a), set()
    print("share  place   at a time  layers on disk  weights a step  tok/s   seconds  keys and values")
    for share in map(float, a.shares.split(",")):
        for place in ("memory", "disk", "auto"):
            out = run(a, file, int(a.base + (1 - share) * matrices), place)
            if "refused" in out:
                print(f"{share:5.2f}  {place:6}  refused: {out['refused']}", flush=True)
                continue
            answers.add(out["answers"])
            print(f"{share:5.2f}  {place:6}  {out['batch']:>9}  {out['layers'] or 0:>14}  {out['weights']:>14}  {out['tok/s']:>6}  {out['seconds']:7.1f}  {out['moved'] or 'in memory'}",
                  flush=True)
            if place == "disk" and not out["exact"]:
                sys.exit("what was moved is not what was planned")
    if len(answers) != 1:
        sys.exit(f"{len(answers)} different answers")
    print("all answers are the same bytes")


if __name__ == "__main__":
    main()
