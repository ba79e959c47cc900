#!/usr/bin/env python3
"""Decoding with less memory than the weights take, in control groups: tern beside its own bound, and beside llama.cpp's mapped file.

    ninja -C build/release tern
    benchmarks/inference/under_limits.py --work DIR [--llama-bench PATH] [--limits 900,1500,2000] [--rounds 3] [--tokens 24] [--llama-tokens 6]
    benchmarks/inference/under_limits.py --work DIR --shape 7b --type lc4 --limits 2048 [--llama-bench PATH] [--tokens 10] [--llama-tokens 3]

DIR keeps a Llama of 1.1B in bf16 with random weights (2.2 GB), and for llama.cpp the same as a GGUF file; --rounds 0: only writes them. --type lc4 (lc3, lc2):
random codes, written one tensor at a time, with the tables of tokens in Q8_0 (7b in LC4: 3.7 GB); for llama.cpp random codes in Q4_K with the head in Q6_K
(3.8 GB). Round after round each program runs once under each limit (MiB): tern with that --memory, both in a control group of that many bytes, so that the
system kills what takes more; llama.cpp maps its file. Before each run the page cache is dropped, and mincore says that no page of the file is in it: pages
from before would be charged to nobody. Printed: tokens a second (tern: of the median step), tern's share of its bound as it says it after loading, its
prediction made before loading, the group's highest bytes, and the ratio to llama.cpp. Needs root (control groups, dropping caches), numpy; for Q4_K gguf.
"""
import argparse, ctypes, json, mmap, os, pathlib, re, statistics, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "training")]
import coded, shapes  # noqa: E402
from states_on_disk import Limit  # noqa: E402


def pages_in_cache(path: pathlib.Path) -> int:
    """Pages of the file that lie in the page cache, by mincore."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as at:
        pages = (len(at) + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        found = (ctypes.c_ubyte * pages)()
        libc = ctypes.CDLL(None, use_errno=True)
        first = ctypes.c_char.from_buffer(at)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(at)), found)
        del first
        if failed:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(page & 1 for page in found)


def drop(path: pathlib.Path) -> None:
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    if left := pages_in_cache(path):
        sys.exit(f"{path}: {left} pages are still in the page cache")


def run(command: list, limit_mib: int, file: pathlib.Path) -> tuple:
    drop(file)
    limit = Limit(limit_mib << 20)
    if limit.path is None:
        sys.exit("needs control groups")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, preexec_fn=limit.enter)
    peak = limit.end()
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout), peak, done.stderr


def run_tern(a, mib: int) -> dict:
    out, peak, told = run([a.tern, "generate", a.model, "--prompt", "a", "--max-tokens", a.tokens, "--temperature", 0, "--ignore-eos", "--memory", f"{mib}MiB",
                           "--arithmetic", a.arithmetic, "--threads", a.threads, "--json"], mib, a.model / "model.safetensors")
    rate = 1 / out["timings"]["decode_step_s"]["median"]
    said = out.get("streaming")
    row = {"rate": rate, "peak": peak / 2**20}
    if said:
        predicted = re.search(r"predicted ([\d.]+) tok/s", told)[1]  # the first time; the JSON has what is told after loading
        row |= {"share": rate / said["bound_tokens_per_s"], "bound": said["bound_tokens_per_s"], "by": said["bound_by"], "predicted": float(predicted),
                "disk": said["disk_bytes_per_s"] / 1e9}
    return row


def run_llama(a, mib: int) -> dict:
    mapped = ["-lm", "mmap", "--repack", 0]  # repacked matrices would be copies, which the group has no room for
    out, peak, _ = run([a.llama_bench, "-m", a.gguf, "-p", 0, "-n", a.llama_tokens, "-t", a.threads, "-r", 1, "-o", "json", *mapped], mib, a.gguf)
    return {"rate": out[0]["avg_ts"], "peak": peak / 2**20}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "tests/golden/tokenizers/byte_level", help="of 703 tokens")
    p.add_argument("--llama-bench")
    p.add_argument("--limits", default="900,1500,2000", help="MiB")
    p.add_argument("--shape", choices=["1b", "7b"], default="1b")
    p.add_argument("--type", choices=["bf16", "lc4", "lc3", "lc2"], default="bf16")
    p.add_argument("--arithmetic", choices=["kept", "int8"], default="kept")
    for name, value in (("rounds", 3), ("tokens", 24), ("llama-tokens", 6), ("threads", 2)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    a.model = a.work / f"{a.shape}-{a.type}"
    a.gguf = a.work / f"{a.shape}-{'bf16' if a.type == 'bf16' else 'q4_k'}.gguf"
    if a.type == "bf16":
        shapes.write_with_tokenizer(a.shape, a.model, a.tokenizer)
    elif not a.model.exists():
        a.work.mkdir(parents=True, exist_ok=True)
        coded.write_learned(a.shape, a.tokenizer, a.model, int(a.type[2:]))
    if a.llama_bench and not a.gguf.exists():
        if a.type == "bf16":
            with tempfile.TemporaryDirectory(dir=a.work) as bare:  # without the tokenizer, for which GGUF has no name
                for name in ("config.json", "model.safetensors"):
                    (pathlib.Path(bare) / name).symlink_to((a.model / name).resolve())
                subprocess.run([a.tern, "export", bare, "--format", "gguf", "--output", a.gguf], check=True, capture_output=True)
        else:
            coded.write_q4_k(a.shape, a.gguf)
    if not a.rounds:
        return
    limits = [int(mib) for mib in a.limits.split(",")]
    rows = {(mib, who): [] for mib in limits for who in ("tern", "llama.cpp")}
    for turn in range(a.rounds):
        for mib in limits if turn % 2 == 0 else limits[::-1]:
            rows[mib, "tern"].append(run_tern(a, mib))
            if a.llama_bench:
                rows[mib, "llama.cpp"].append(run_llama(a, mib))
            print(json.dumps({"round": turn, "limit_mib": mib, "tern": rows[mib, "tern"][-1], "llama.cpp": (rows[mib, "llama.cpp"] or [None])[-1]}), flush=True)
    for mib in limits:
        own = rows[mib, "tern"]
        middle = lambda key: statistics.median(row[key] for row in own if key in row) if any(key in row for row in own) else float("nan")
        binds = " or ".join(sorted({row["by"] for row in own if "by" in row}))
        line = (f"{mib} MiB: tern {middle('rate'):.2f} tok/s ({min(r['rate'] for r in own):.2f} to {max(r['rate'] for r in own):.2f}), {middle('share'):.2f} of its bound "
                f"({middle('bound'):.2f}, {binds}), predicted {middle('predicted'):.2f}, at most {max(r['peak'] for r in own):.0f} MiB")
        if other := rows[mib, "llama.cpp"]:
            theirs = statistics.median(r["rate"] for r in other)
            line += f"; llama.cpp {theirs:.2f} ({min(r['rate'] for r in other):.2f} to {max(r['rate'] for r in other):.2f}): {middle('rate') / theirs:.1f} times"
        print(line)


if __name__ == "__main__":
    main()
