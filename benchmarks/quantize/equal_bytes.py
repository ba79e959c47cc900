#!/usr/bin/env python3
"""LC mixtures beside llama.cpp's quantised files of the same bytes: KL divergence to the unquantised model, with standard errors.

    equal_bytes.py --work FOLDER --text FILE [--text FILE ...] --calibration FILE [--tern ./tern] [--model DIR ...]
                   [--llama-quantize PROGRAM] [--llama-imatrix PROGRAM] [--types Q2_K,IQ3_XXS,...] [--table-types q8_0,q5_1,...]
                   [--text-bytes 80000] [--calibration-tokens 32768] [--reconstruction-steps N] [--threads N] [--quick]

For each model and type: the rival file, by llama.cpp's own quantiser from an f32 GGUF file of ours (with an importance matrix
of the calibration text where --llama-imatrix is given; IQ2 and IQ3_XXS are not made without one); types that `tern quantize` writes
to the bits of GGUF's reference (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0) need no program. Then an LC mixture whose tensors take the bytes of the rival's
tensors within 1 % (`tern quantize --method lcq --bits mixed --target-bytes`), calibrated on the same text; its tables of tokens have
the widest type of --table-types that is no wider than the rival's table; with --reconstruction-steps its LC matrices are trained so long. Both are evaluated by `tern eval --reference`, in f32 and with
weights decoded, on the first --text-bytes of each text. What each matrix costs is measured once for a model. A difference is one where it is beyond two standard errors of both together
(taken as independent, which errs on the careful side: both see the same tokens).

Every step leaves a file in --work and is not done again: the same command goes on. Prints a Markdown table per model and, by the issue's
three groups (IQ4_XS; IQ3_XXS, Q3_K; IQ2_XS, Q2_K), where the mixture is ahead on the mean over texts. --quick: two types, 4,096
tokens for calibration, 20,000 bytes of the first text, within ten minutes on two cores.

The two programs come from llama.cpp's source (also in the source archive of llama-cpp-python, vendor/llama.cpp):
    cmake -B b -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF && cmake --build b --target llama-quantize llama-imatrix
Needs the public `gguf` package, which reads the rivals' types and bytes.
"""
import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN_WRITER = {"Q4_0": "q4_0", "Q4_1": "q4_1", "Q5_0": "q5_0", "Q5_1": "q5_1", "Q8_0": "q8_0"}  # bits of GGUF's reference
# Beside the type's own matrices llama.cpp gives some tensors more: the name is the recipe's.
TYPES = ["Q6_K", "Q5_K_S", "Q4_K_S", "Q4_0", "IQ4_XS", "Q3_K_M", "Q3_K_S", "IQ3_S", "IQ3_XXS", "Q2_K", "IQ2_S", "IQ2_XS", "IQ2_XXS"]
WANT_IMPORTANCE = {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ1_S", "IQ1_M", "Q2_K_S"}
GROUPS = {"IQ4_XS": ["IQ4_XS"], "IQ3_XXS, Q3_K": ["IQ3_XXS", "Q3_K_S", "Q3_K_M"], "IQ2_XS, Q2_K": ["IQ2_XS", "Q2_K"]}
TABLE_BITS = {"q8_0": 8.5, "q6_k": 6.5625, "q5_1": 6.0, "q5_k": 5.5, "q4_1": 5.0, "q4_k": 4.5}


def run(*command, may_fail=False):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode and not may_fail:
        sys.exit(f"equal_bytes: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-1500:]}")
    return done


def kept(path, make):
    """The JSON in `path`, made and written at its first use. Written whole or not at all."""
    if not path.exists():
        value = make()
        temporary = path.with_suffix(".partial.json")
        temporary.write_text(json.dumps(value, indent=1))
        temporary.rename(path)
    return json.loads(path.read_text())


def made_file(path, make):
    """A file that a program writes, under its name only when the program has ended well."""
    if not path.exists():
        temporary = path.with_name("unfinished-" + path.name)
        temporary.unlink(missing_ok=True)
        make(temporary)
        temporary.rename(path)
    return path


def tern(a, *arguments, may_fail=False):
    return run(a.tern, *arguments, *(["--threads", a.threads] if a.threads else []), may_fail=may_fail)


def cut(a, text, index):
    """The beginning of a text, cut between lines."""
    def write(path):
        data = pathlib.Path(text).read_bytes()[: a.text_bytes]
        path.write_bytes(data[: data.rfind(b"\n") + 1] or data)
    return made_file(a.work / f"text-{index}-{a.text_bytes}.txt", write)


def tensors_of(path):
    """Bytes of all tensors, and bits per weight of the table of tokens."""
    from gguf import GGUFReader
    tensors = GGUFReader(path).tensors
    table = next(t for t in tensors if t.name == "token_embd.weight")
    return {"bytes": int(sum(t.n_bytes for t in tensors)), "table_bits": 8 * int(table.n_bytes) / int(table.n_elements),
            "types": sorted({t.tensor_type.name for t in tensors})}


def rival_file(a, model, here, kind):
    """The rival's GGUF file, or why there is none."""
    if kind in OWN_WRITER and not a.llama_quantize:
        def by_tern(path):
            tern(a, "quantize", model, "--type", OWN_WRITER[kind], "--output", path)
        # --output must end in .gguf; so does an unfinished one.
        return made_file(here / f"{kind}.gguf", by_tern), None
    if not a.llama_quantize:
        return None, "only llama.cpp's quantiser writes it (--llama-quantize)"
    if kind in WANT_IMPORTANCE and not a.llama_imatrix:
        return None, "wants an importance matrix (--llama-imatrix)"
    plain = made_file(here / "f32.gguf",
                      lambda path: tern(a, "export", model, "--format", "gguf", "--dtype", "f32", "--output", path))
    importance = []
    if a.llama_imatrix:
        matrix = made_file(here / "imatrix.gguf", lambda path: run(
            a.llama_imatrix, "-m", plain, "-f", a.calibration, "-o", path, "-c", 512, "--chunks",
            max(1, a.calibration_tokens // 512), "-t", a.threads or 2, "--no-ppl"))
        importance = ["--imatrix", matrix]
    why = []

    def by_llama(path):
        done = run(a.llama_quantize, *importance, plain, path, kind, a.threads or 2, may_fail=True)
        if done.returncode:
            path.unlink(missing_ok=True)
            path.write_bytes(b"")
            why.append(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"ended with {done.returncode}")
    file = made_file(here / f"{kind}.gguf", by_llama)
    if file.stat().st_size == 0:
        file.unlink()
        return None, why[0]
    return file, None


def mixture_of(a, model, here, kind, rival):
    """tern's own directory of the rival's bytes: what `tern quantize --json` says of it, or why there is none."""
    allowed = [t for t in a.table_types if TABLE_BITS[t] <= rival["table_bits"]] or a.table_types[-1:]
    why = ""
    for table in allowed:
        out = here / f"mixture-{kind}"
        shutil.rmtree(out, ignore_errors=True)  # of a run that ended before it said what it made
        done = tern(a, "quantize", model, "--method", "lcq", "--bits", "mixed", "--target-bytes", rival["bytes"], "--table-type", table,
                    "--sensitivity", here / "sensitivity", "--data", a.calibration, "--calibration-tokens", a.calibration_tokens,
                    *(["--reconstruction-steps", a.reconstruction_steps] if a.reconstruction_steps else []),
                    "--output", out, "--json", may_fail=True)
        if done.returncode == 0:
            said = json.loads(done.stdout)
            said["directory"] = str(out)
            if abs(said["tensor_bytes"] - rival["bytes"]) > 0.01 * rival["bytes"]:
                sys.exit(f"equal_bytes: {out} has {said['tensor_bytes']} bytes, {rival['bytes']} were asked for")
            return said
        why = done.stderr.strip().splitlines()[-1]
        if "no mixture" not in why:
            sys.exit(f"equal_bytes: {kind}: {done.stderr[-1500:]}")
    return {"none": why}


def divergence(a, path, model, text):
    out = json.loads(tern(a, "eval", path, "--data", text, "--reference", model, "--dtype", "f32", "--json").stdout)
    return {k: out[k] for k in ("scored_tokens", "kl_divergence", "kl_divergence_stderr", "same_top", "perplexity", "reference_perplexity")}


def compare(a, model, here, kind, texts):
    file, why = rival_file(a, model, here, kind)
    if why:
        return {"type": kind, "none": why}
    rival = kept(here / f"{kind}.tensors.json", lambda: tensors_of(file))
    mixture = kept(here / f"mixture-{kind}.json", lambda: mixture_of(a, model, here, kind, rival))
    if "none" in mixture:
        return {"type": kind, "none": mixture["none"], "rival": rival}
    row = {"type": kind, "rival": rival, "mixture_bytes": mixture["tensor_bytes"], "table_type": mixture["table_type"], "texts": []}
    for i, text in enumerate(texts):
        row["texts"].append({
            "rival": kept(here / f"{kind}.kl-{i}.json", lambda: divergence(a, file, model, text)),
            "mixture": kept(here / f"mixture-{kind}.kl-{i}.json", lambda: divergence(a, mixture["directory"], model, text))})
    return row


def verdict(rival, mixture):
    """-1: the mixture is nearer, 1: the rival, 0: within two standard errors."""
    apart = mixture["kl_divergence"] - rival["kl_divergence"]
    error = math.hypot(mixture["kl_divergence_stderr"], rival["kl_divergence_stderr"])
    return 0 if abs(apart) <= 2 * error else (1 if apart > 0 else -1)


def shown(figure):
    digits = max(2, 1 - math.floor(math.log10(figure["kl_divergence_stderr"]))) if figure["kl_divergence_stderr"] > 0 else 6
    return f"{figure['kl_divergence']:.{digits}f} ± {figure['kl_divergence_stderr']:.{digits}f}"


def table(a, model, rows):
    print(f"\n## {model}\n\n| rival | bytes | bits of its table | mixture's bytes, table |" +
          "".join(f" {pathlib.Path(t).name}: rival | mixture | of it |" for t in a.text))
    print("|---|---|---|---|" + "---|---|---|" * len(a.text))
    word = {-1: "ahead", 0: "even", 1: "behind"}
    for row in rows:
        if "none" in row:
            print(f"| {row['type']} | {row['none']} |")
            continue
        cells = [row["type"], f"{row['rival']['bytes']:,}", f"{row['rival']['table_bits']:.2f}",
                 f"{row['mixture_bytes']:,} ({100 * row['mixture_bytes'] / row['rival']['bytes'] - 100:+.2f} %), {row['table_type']}"]
        for t in row["texts"]:
            ratio = t["mixture"]["kl_divergence"] / t["rival"]["kl_divergence"]
            cells += [shown(t["rival"]), shown(t["mixture"]), f"{ratio:.2f}, {word[verdict(t['rival'], t['mixture'])]}"]
        print("| " + " | ".join(cells) + " |")
    ahead = known = 0
    for name, types in GROUPS.items():
        of_group = [r for r in rows if r["type"] in types and "none" not in r]
        if not of_group:
            print(f"\n{name}: not measured", end="")
            continue
        known += 1
        wins = sum(verdict(t["rival"], t["mixture"]) < 0 for r in of_group for t in r["texts"])
        all_of = sum(len(r["texts"]) for r in of_group)
        ahead += wins == all_of
        print(f"\n{name}: ahead in {wins} of {all_of} comparisons", end="")
    print(f"\n\nAhead throughout in {ahead} of {known} groups measured.", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--text", action="append", required=True)
    parser.add_argument("--calibration", required=True)
    parser.add_argument("--tern", default=str(ROOT / "tern"))
    parser.add_argument("--model", action="append")
    parser.add_argument("--llama-quantize")
    parser.add_argument("--llama-imatrix")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--table-types", default=",".join(TABLE_BITS))
    parser.add_argument("--text-bytes", type=int, default=80_000)
    parser.add_argument("--calibration-tokens", type=int, default=32_768)
    parser.add_argument("--reconstruction-steps", type=int, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--quick", action="store_true")
    a = parser.parse_args()
    a.model = a.model or [str(ROOT / "examples" / "novels-6m")]
    a.types, a.table_types = a.types.split(","), a.table_types.split(",")
    if a.quick:
        a.types = ["Q4_0", "IQ4_XS", "Q2_K"] if a.llama_quantize else ["Q4_0", "Q5_0"]
        a.text, a.text_bytes, a.calibration_tokens = a.text[:1], 20_000, 4_096
    a.work.mkdir(parents=True, exist_ok=True)
    asked = {"texts": a.text, "text_bytes": a.text_bytes, "calibration": a.calibration, "tokens": a.calibration_tokens,
             "table_types": a.table_types, "steps": a.reconstruction_steps, "importance": bool(a.llama_imatrix), "by_llama": bool(a.llama_quantize)}
    if kept(a.work / "asked.json", lambda: asked) != asked:
        sys.exit(f"equal_bytes: {a.work} holds what other texts or settings gave; name another --work")
    texts = [cut(a, text, i) for i, text in enumerate(a.text)]
    everything = {}
    for model in a.model:
        here = a.work / pathlib.Path(model).name
        here.mkdir(exist_ok=True)
        rows = []
        for kind in a.types:
            print(f"{model}: {kind}", file=sys.stderr, flush=True)
            rows.append(compare(a, model, here, kind, texts))
        table(a, model, rows)
        everything[model] = rows
    (a.work / "result.json").write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
