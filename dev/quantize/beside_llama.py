#!/usr/bin/env python3
"""GGUF files that tern writes, read by llama.cpp: the same 48 greedy tokens as ours, or a first difference within a stated bound.

    python3 -m venv venv && venv/bin/pip install gguf llama-cpp-python==0.3.36
    venv/bin/python dev/quantize/beside_llama.py [--tern ./tern] [--model examples/novels-6m] [--types q8_0,q4_k,...]
                                                 [--prompts FILE] [--tokens 48] [--arithmetic kept|int8] [--json FILE]

A llama.cpp built elsewhere is found by LLAMA_CPP_LIB_PATH (the folder of libllama.so), beside the package's Python sources.

For each type `tern quantize` writes a file. `tern generate --dtype f32 --temperature 0` and llama.cpp, which is given our ids of the
prompt, continue each prompt. Where they first differ, ours prefers token a and llama.cpp token b, and
    apart = [log p(a) - log p(b)] of ours + [log p(b) - log p(a)] of llama.cpp,   natural logarithms,
two margins, neither below zero, both between the two likeliest tokens. It is how far the two programs disagree about one difference of
logits, so what bounds it is the noise of such a difference.

The noise: llama.cpp multiplies coded weights by activations rounded to 8 bits (in blocks of 32; of 256 for q4_k, q5_k, q6_k), tern by
unrounded ones. What this does is measured without tern: the same file with every weight decoded to f32 by the `gguf` package is a
second model, for which llama.cpp rounds no activation. S is the root mean square, over all steps of all prompts, of what the difference
between the two likeliest tokens' logits changes from one to the other. What must hold:

  apart <= 8·S (with --arithmetic int8 ours rounds too: 8·S·√2). The errors of one step add up to something near normal, but their size
      changes with the text: over 2,304 steps of other prompts the fourth moment was 4.6·S⁴ (q4_0) and 5.5·S⁴ (q6_k), as Student's t has
      with 7.8 and 6.4 degrees of freedom, of which one step in 7,000 and 4,000 lies beyond 6·S (seen: one each), one in 55,000 and 21,000
      beyond 8·S. A run of eight types has 3,072 steps, and only where the two likeliest tokens are that near can they change places.
  S <= 3 % of the logits' standard deviation, or a file that llama.cpp reads otherwise than `gguf` would widen its own bound. A product errs
      by max|x| / (127·√12·rms(x)): 0.5 % in blocks of 32 and 0.7 % in blocks of 256 normal numbers; the head's own rounding and what the
      layers before it did make two or three times that, a difference of two logits √2 more.
  step by step, up to the first difference: our difference of llama.cpp's two likeliest tokens is that of llama.cpp with decoded weights
      within 0.001, so all that parts us is llama.cpp's rounding. Logits are of the order of 10, f32 has 6·10⁻⁸ relative and errors of sums
      of some thousand products grow as a root: 10⁻⁵ is to be expected. (--arithmetic int8: within 1.5·S, root mean square.)
  beside llama.cpp with decoded weights, apart <= 0.001 (--arithmetic int8: 8·S).

Keys and values are f32 on both sides. Prints a table; exit code 1 where a bound is passed, a file is not read or tokens differ in number.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize
from llama_cpp import Llama

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q6_k", "q5_k", "q4_k"]
DEVIATIONS = 8
OF_F32_SUMS = 0.001
NOISE_OF_LOGITS = 0.03
OWN_ROUNDING = 1.5
F32 = 0  # ggml's number of the type
PROMPTS = [
    "It was a bright cold day, and the old man walked slowly down to the harbour,",
    "\"I do not believe a word of it,\" said the doctor, putting down his glass.",
    "The house stood at the end of a long avenue of elms; behind it",
    "My dear sister, you will be surprised to hear from me after so long a silence. The truth is that",
    "When the ship had been eleven days at sea the wind fell, and the captain ordered",
    "She had never been handsome, but there was in her manner something which",
    "CHAPTER IV\n\nOn the following morning",
    "Towards evening the rain ceased, and a thin light came over the hills. Nobody had spoken for an hour, until at last the boy asked",
]


class Failed(Exception):
    pass


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout


class Server:
    """`tern serve` on a file, for what `tern generate` does not tell: ids of a text, log-probabilities of any token."""

    def __init__(self, a, file):
        self.process = subprocess.Popen(
            [a.tern, "serve", str(file), "--port", "0", "--json", "--dtype", "f32", "--arithmetic", a.arithmetic],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = []
        while not lines or lines[-1] != "}":
            lines.append(self.process.stdout.readline().rstrip("\n"))
            if not lines[-1]:
                self.process.kill()
                raise Failed(f"tern serve {file} did not start")
        self.url = json.loads("\n".join(lines))["url"]
        self.known = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(40)

    def post(self, path, body):
        try:
            with urllib.request.urlopen(urllib.request.Request(
                    self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}), timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failed(f"{path}: {error.code} {error.read()[:400]!r}") from error

    def ids(self, text):
        return self.post("/tokenize", {"prompt": text})["tokens"]

    def log_probability(self, prefix, token):
        """The token is forced by a bias, of which `logprobs` know nothing: they are the model's own."""
        asked = (*prefix, token)
        if asked not in self.known:
            self.known[asked] = self.ask(prefix, token)
        return self.known[asked]

    def ask(self, prefix, token):
        choice = self.post("/v1/completions", {"prompt": prefix, "max_tokens": 1, "temperature": 0, "logprobs": 0, "ignore_eos": True,
                                               "logit_bias": {str(token): 100}, "return_token_ids": True})["choices"][0]
        if choice["token_ids"] != [token]:
            raise Failed(f"a bias of 100 did not force token {token}")
        return choice["logprobs"]["token_logprobs"][0]

    def difference(self, prefix, first, second):
        return self.log_probability(prefix, first) - self.log_probability(prefix, second)


class Rival:
    """llama.cpp on a file."""

    def __init__(self, file, num_context, num_threads):
        self.llama = Llama(model_path=str(file), n_ctx=num_context, logits_all=True, type_k=F32, type_v=F32, n_threads=num_threads,
                           n_threads_batch=num_threads, verbose=False)

    def logits(self, prompt, written=None, num_tokens=0):
        """One row for each token written after the prompt: those of `written`, or else the likeliest."""
        self.llama.reset()
        self.llama.eval(prompt)
        rows = []
        for step in range(len(written) if written is not None else num_tokens):
            rows.append(self.llama.scores[self.llama.n_tokens - 1].astype(np.float64))
            self.llama.eval([written[step] if written is not None else int(rows[-1].argmax())])
        return np.array(rows)


def decoded(file, to):
    """The same model with every weight decoded to f32, by the gguf package."""
    reader = GGUFReader(file)
    writer = GGUFWriter(to, reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        value = F32 if field.name == "general.file_type" else field.contents()
        writer.add_key_value(field.name, value, kind, sub_type=field.types[-1] if kind == GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type).astype(np.float32), raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def types_of(file):
    return sorted({t.tensor_type.name for t in GGUFReader(file).tensors if t.tensor_type != GGMLQuantizationType.F32})


def greedy(a, file, prompt, num_prompt):
    said = json.loads(run(a.tern, "generate", file, "--prompt", prompt, "--temperature", 0, "--max-tokens", a.tokens, "--ignore-eos",
                          "--dtype", "f32", "--arithmetic", a.arithmetic, "--json"))
    if said["prompt_tokens"] != num_prompt or len(said["token_ids"]) != a.tokens:
        raise Failed(f"{file}: {said['prompt_tokens']} tokens of a prompt and {len(said['token_ids'])} behind it, "
                     f"not {num_prompt} and {a.tokens}")
    return said["token_ids"]


def two_likeliest(row):
    return [int(t) for t in np.argsort(-row, kind="stable")[:2]]


def beside(server, prompt, ours, rows, unrounded_rows):
    """Ours beside one run of llama.cpp. The step at which they first differ (or None), both margins there; and up to there, how much our
    difference between llama.cpp's two likeliest tokens is another than that of `unrounded_rows`, which have read the same."""
    unexplained = []
    for step, (row, unrounded) in enumerate(zip(rows, unrounded_rows)):
        first, second = two_likeliest(row)
        prefix, own = prompt + ours[:step], ours[step]
        unexplained.append(server.difference(prefix, first, second) - (unrounded[first] - unrounded[second]))
        if own != first:
            return step, server.difference(prefix, own, first), row[first] - row[own], unexplained
    return None, 0.0, 0.0, unexplained


def rounding_noise(coded_rows, plain_rows):
    """Of llama.cpp alone: what the difference between the two likeliest tokens changes by 8-bit activations, step by step."""
    noise = []
    for coded, plain in zip(coded_rows, plain_rows):
        first, second = two_likeliest(plain)
        noise.append((coded[first] - coded[second]) - (plain[first] - plain[second]))
    return noise


def root_mean_square(values):
    return math.sqrt(sum(v * v for v in values) / len(values))


def outcome(of_prompts, bound):
    """Of what `beside` says of each prompt."""
    parted = [(i, *p[:3]) for i, p in enumerate(of_prompts) if p[0] is not None]
    unexplained = [d for p in of_prompts for d in p[3]]
    return {"alike": len(of_prompts) - len(parted), "prompts": len(of_prompts),
            "parted": [{"prompt": i + 1, "token": step + 1, "our_margin": own, "their_margin": other} for i, step, own, other in parted],
            "apart": max((own + other for _, _, own, other in parted), default=0.0), "bound": bound,
            "steps": len(unexplained), "unexplained_rms": root_mean_square(unexplained), "unexplained_most": max(map(abs, unexplained))}


def holds(result, arithmetic):
    both = [result["coded"], result["decoded"]]
    if arithmetic == "kept":
        explained = all(o["unexplained_most"] <= OF_F32_SUMS for o in both)
    else:
        explained = all(o["unexplained_rms"] <= OWN_ROUNDING * result["rounding_rms"] for o in both)
    return bool(explained and result["rounding_of_logits"] <= NOISE_OF_LOGITS and all(o["apart"] <= o["bound"] for o in both))


def check(a, kind, folder):
    file, plain_file = folder / f"{kind}.gguf", folder / f"{kind}-decoded.gguf"
    run(a.tern, "quantize", a.model, "--type", kind, "--output", file)
    decoded(file, plain_file)
    with Server(a, file) as server:
        prompts = [server.ids(p) for p in a.texts]
        ours = [greedy(a, file, text, len(ids)) for text, ids in zip(a.texts, prompts)]
        context = max(map(len, prompts)) + a.tokens + 1
        coded, plain = Rival(file, context, a.threads), Rival(plain_file, context, a.threads)
        coded_rows = [coded.logits(p, num_tokens=a.tokens) for p in prompts]
        unrounded_rows = [plain.logits(p, [int(r.argmax()) for r in rows]) for p, rows in zip(prompts, coded_rows)]
        plain_rows = [plain.logits(p, num_tokens=a.tokens) for p in prompts]
        of_coded = [beside(server, *of_prompt) for of_prompt in zip(prompts, ours, coded_rows, unrounded_rows)]
        of_plain = [beside(server, *of_prompt) for of_prompt in zip(prompts, ours, plain_rows, plain_rows)]
    noise = [n for rows, unrounded in zip(coded_rows, unrounded_rows) for n in rounding_noise(rows, unrounded)]
    deviation, int8 = root_mean_square(noise), a.arithmetic == "int8"
    result = {"type": kind, "in_file": types_of(file), "rounding_rms": deviation, "rounding_most": max(map(abs, noise)),
              "rounding_of_logits": deviation / float(np.mean([rows.std(axis=1).mean() for rows in plain_rows])),
              "coded": outcome(of_coded, DEVIATIONS * deviation * (math.sqrt(2) if int8 else 1)),
              "decoded": outcome(of_plain, DEVIATIONS * deviation if int8 else OF_F32_SUMS)}
    result["within"] = holds(result, a.arithmetic)
    file.unlink()
    plain_file.unlink()
    return result


HEAD = ["type", "alike", "first differences (prompt: token, our margin + theirs)", "apart, most", "bound", "S, of the logits' deviation",
        "unexplained, RMS and most", "weights decoded: alike", "apart", "bound", "unexplained, RMS and most", "within"]


def shown(result):
    c, d = result["coded"], result["decoded"]
    parted = "; ".join(f"{p['prompt']}: {p['token']}, {p['our_margin']:.4f} + {p['their_margin']:.4f}" for p in c["parted"]) or "none"
    cells = [result["type"], f"{c['alike']} of {c['prompts']}", parted, f"{c['apart']:.4f}", f"{c['bound']:.3f}",
             f"{result['rounding_rms']:.4f}, {100 * result['rounding_of_logits']:.1f} %",
             f"{c['unexplained_rms']:.6f}, {c['unexplained_most']:.6f}", f"{d['alike']} of {d['prompts']}", f"{d['apart']:.4f}",
             f"{d['bound']:.3f}", f"{d['unexplained_rms']:.6f}, {d['unexplained_most']:.6f}", "yes" if result["within"] else "NO"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default=str(ROOT / "tern"))
    parser.add_argument("--model", default=str(ROOT / "examples" / "novels-6m"))
    parser.add_argument("--types", default=",".join(TYPES), help="of --type of tern quantize, with commas between")
    parser.add_argument("--prompts", type=pathlib.Path, help="a JSON text a line, instead of the eight built in")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--arithmetic", choices=["kept", "int8"], default="kept", help="of tern")
    parser.add_argument("--threads", type=int, default=1, help="of llama.cpp")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    a = parser.parse_args()
    a.texts = [json.loads(line) for line in a.prompts.read_text().splitlines() if line] if a.prompts else PROMPTS
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    results, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in a.types.split(","):
            try:
                results.append(check(a, kind, pathlib.Path(folder)))
                print(shown(results[-1]), flush=True)
                failed += not results[-1]["within"]
            # ValueError: llama.cpp does not read the file. OSError: a server that is gone (URLError is one).
            except (Failed, ValueError, KeyError, OSError, subprocess.TimeoutExpired) as error:
                print(f"| {kind} | FAILED: {type(error).__name__}: {error} |", flush=True)
                failed += 1
    if a.json:
        a.json.write_text(json.dumps(results, indent=1))
    print(f"{len(results)} types measured, {failed} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
