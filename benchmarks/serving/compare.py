#!/usr/bin/env python3
"""tern serve beside llama.cpp's server under the same load, in turns, on one model of random bf16 weights.

    compare.py [--tern build/release/bin/tern] [--llama-server PATH] [--users 16] [--prompt 128] [--tokens 64] [--rounds 3]
               [--threads 2] [--shape 1b] [--model FOLDER] [--read-rate build/release/benchmarks/inference/read_rate]

The model (benchmarks/inference/shapes.py) is written once and exported to GGUF for llama.cpp. Each server is started, warmed,
put under the load of `tern bench serve` (streams of /v1/completions with the same prompts of token ids) and ended, one after the
other, round after round; the median of tokens a second, and of the ratio within a round. Where read_rate is there, a step of a
batch is held to the time of reading weights, keys and values once. llama-server: of llama.cpp, built with its instruction sets on
(`-DGGML_NATIVE=ON`, target llama-server). Needs numpy.
"""
import argparse, json, os, pathlib, signal, socket, statistics, subprocess, sys, tempfile, time, urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent / "inference")]
import compare as inference  # noqa: E402
from shapes import MODELS, read_by_a_token  # noqa: E402


def load(a, *words):
    out = subprocess.run([a.tern, "bench", "serve", *map(str, words), "--users", str(a.users), "--requests", str(a.requests),
                          "--prompt-tokens", str(a.prompt), "--max-tokens", str(a.tokens), "--seed", "1", "--json"],
                         capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"bench serve {words}: {out.stderr}")
    return json.loads(out.stdout)


def of_tern(a, work):
    return load(a, work / "model", "--", "--threads", a.threads, "--prefix-cache", "off", "--max-running", a.users)


def of_llama(a, work):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    context = a.users * (a.prompt + a.tokens + 16)
    server = subprocess.Popen([a.llama_server, "-m", str(work / "model.gguf"), "--port", str(port), "-np", str(a.users), "-c", str(context),
                               "-t", str(a.threads), "-tb", str(a.threads), "--no-webui"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                if json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/health"))["status"] == "ok":
                    break
            except OSError:
                time.sleep(0.1)
        return load(a, "--url", f"http://127.0.0.1:{port}")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def step_roof(a, work):
    """Seconds to read what a step of all users reads: weights once, keys and values of each at half the answer."""
    out = subprocess.run([a.read_rate, str(next((work / "model").glob("*.safetensors"))), str(a.threads)], capture_output=True, text=True).stdout
    rates = [float(x) for x in out.split()]
    m = MODELS[a.shape]
    kv = 2 * 2 * m["layers"] * m["kv_heads"] * m["head"] * a.users * (a.prompt + a.tokens / 2)
    return (2 * read_by_a_token(a.shape) + kv) / (1e9 * max(rates)) if rates else None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tern", default=str(ROOT / "build/release/bin/tern"))
    p.add_argument("--llama-server")
    p.add_argument("--read-rate", default=str(ROOT / "build/release/benchmarks/inference/read_rate"))
    for name, value in (("users", 16), ("prompt", 128), ("tokens", 64), ("requests", 48), ("rounds", 3), ("threads", 2)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--shape", choices=MODELS, default="1b")
    p.add_argument("--model", help="a folder that keeps the model for another time")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(a.model or scratch)
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "model" / "config.json").exists():
            inference.make_model(a, work / "model")
        if a.llama_server and not (work / "model.gguf").exists():
            inference.run(a.tern, "export", work / "model", "--format", "gguf", "--output", work / "model.gguf")
        who = {"tern": of_tern, **({"llama.cpp": of_llama} if a.llama_server else {})}
        rates, steps = {name: [] for name in who}, []
        for number in range(a.rounds):
            for name in list(who) if number % 2 == 0 else list(who)[::-1]:
                r = who[name](a, work)
                rates[name].append(r["output_tokens_per_s"])
                if name == "tern":
                    steps.append(r["tpot_s"]["median"])
                print(json.dumps({"round": number, "server": name, "tokens_per_s": r["output_tokens_per_s"], "answered": r["answered"],
                                  "ttft_s": r["ttft_s"]["mean"], "tpot_s": r["tpot_s"]["mean"]}), flush=True)
        out = {name: statistics.median(x) for name, x in rates.items()}
        if a.llama_server:
            out["ratio"] = statistics.median(t / l for t, l in zip(rates["tern"], rates["llama.cpp"]))
        if os.path.exists(a.read_rate) and (roof := step_roof(a, work)):
            out.update(step_s=statistics.median(steps), read_s=roof)
        print(json.dumps(out))


if __name__ == "__main__":
    main()
