#!/usr/bin/env python3
"""tern serve beside llama.cpp's server under the same load, in turns, on one model of random bf16 weights.

    compare.py [--tern build/release/bin/tern] [--llama-server PATH] [--users 16] [--prompt 128] [--tokens 64] [--rounds 3]
               [--turns 5] [--threads 2] [--shape 1b] [--model FOLDER] [--rates build/release/benchmarks/inference]

The model (benchmarks/inference/shapes.py) is written once and exported to GGUF for llama.cpp. Each server is started, warmed,
put under the load of `tern bench serve` (streams of /v1/completions with the same prompts of token ids) and ended, one after the
other, round after round; the median of tokens a second, and of the ratio within a round. Where --rates has read_rate and product_rate
(ninja), --turns times a step in which all streams decode is held to the roof: the longer of the time to read weights, keys and values once
and the time of the products at the rate of products in registers (product_rate: bf16 on tiles, else f32 multiply-adds).
llama-server: of llama.cpp, built with its instruction sets on (`-DGGML_NATIVE=ON`, target
llama-server). --make: only write the model. Needs numpy.
"""
import argparse, json, pathlib, random, signal, socket, statistics, subprocess, sys, tempfile, time, urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent / "inference")]
import compare as inference  # noqa: E402
from limits import Server  # noqa: E402
from shapes import MODELS, read_by_a_token  # noqa: E402


def load(a, *words, of_server=()):
    out = subprocess.run([a.tern, "bench", "serve", *map(str, words), "--users", str(a.users), "--requests", str(a.requests),
                          "--prompt-tokens", str(a.prompt), "--max-tokens", str(a.tokens), "--seed", "1", "--json", *of_server],
                         capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"bench serve {words}: {out.stderr}")
    return json.loads(out.stdout)


def of_tern(a, work):
    return load(a, work / "model",
                of_server=["--", "--threads", str(a.threads), "--prefix-cache", "off", "--max-running", str(a.users)])


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


def steps_of_all(a, server, turn):
    """Seconds between tokens of the first text while those of all users decode, sorted: of a step each. The other texts wait in their
    sockets until it ends, so that reading them takes no time from the server."""
    rng, sockets = random.Random(turn), []
    for i in range(a.users):
        ask = json.dumps({"prompt": [rng.randrange(256, 4000) for _ in range(a.prompt)], "max_tokens": a.tokens, "ignore_eos": True,
                          "stream": True, "return_token_ids": True, "seed": i})
        sockets.append(socket.create_connection(("127.0.0.1", server.port), timeout=600))
        sockets[-1].sendall(f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(ask)}\r\n\r\n{ask}".encode())

    def more(s):
        return s.recv(1 << 20) or sys.exit("compare: the server closed a stream before its end")
    times, seen, counts = [], b"", []
    while b"data: [DONE]" not in seen:
        seen += more(sockets[0])
        times.append(time.perf_counter())
    for s in sockets[1:]:
        so_far = more(s)
        counts.append(so_far.count(b"data: {"))
        while b"data: [DONE]" not in so_far[-200:]:
            so_far += more(s)
    for s in sockets:
        s.close()
    if min(counts) < a.tokens // 2 or max(counts) > a.tokens or len(times) < a.tokens // 2:
        sys.exit(f"compare: when the first text ended the others had {min(counts)} to {max(counts)} tokens of {a.tokens}; raise --tokens")
    return sorted(y - x for x, y in zip(times[len(times) // 2:], times[len(times) // 2 + 1:]))


def rates_of(a, work):
    """Median of GB/s read and of GFLOP/s."""
    read = [float(x) for x in subprocess.run([a.rates / "read_rate", next((work / "model").glob("*.safetensors")), str(a.threads)],
                                             capture_output=True, text=True, check=True).stdout.split()]
    made = [float(x) for x in subprocess.run([a.rates / "product_rate", str(a.threads), "100"], capture_output=True, text=True, check=True).stdout.split()]
    return max(read[2:]), made[1]


def roof(a, work):
    """A step of all users beside the roof, turn by turn: rates, steps, rates. A neighbour halves a shared machine's rates within
    seconds, so each turn's median step stands beside the means of the median rates just before and just after it."""
    m = MODELS[a.shape]
    kv = 2 * 2 * m["layers"] * m["kv_heads"] * m["head"] * a.users * (a.prompt + a.tokens / 2)
    weights = read_by_a_token(a.shape)
    server = Server([a.tern, "serve", str(work / "model"), "--port", "0", "--json", "--threads", str(a.threads), "--prefix-cache", "off",
                     "--max-running", str(a.users)])
    shares = []
    steps_of_all(a, server, 0)  # touches all pages
    before = rates_of(a, work)
    for turn in range(1, 1 + a.turns):
        step = statistics.median(steps_of_all(a, server, turn))
        after = rates_of(a, work)
        read, made = ((x + y) / 2 for x, y in zip(before, after))
        reads, products = (2 * weights + kv) / (1e9 * read), 2 * weights * a.users / (1e9 * made)
        shares.append(max(reads, products) / step)
        print(json.dumps({"turn": turn, "step_s": step, "read_gb_per_s": read, "products_gflops": made, "read_s": reads,
                          "products_s": products, "share_of_roof": shares[-1]}), flush=True)
        before = after
    server.end()
    return {"share_of_roof": statistics.median(shares), "least": min(shares), "most": max(shares)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tern", default=str(ROOT / "build/release/bin/tern"))
    p.add_argument("--llama-server")
    p.add_argument("--rates", type=pathlib.Path, default=ROOT / "build/release/benchmarks/inference")
    for name, value in (("users", 16), ("prompt", 128), ("tokens", 64), ("requests", 48), ("rounds", 3), ("turns", 5), ("threads", 2)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--shape", choices=MODELS, default="1b")
    p.add_argument("--model", help="a folder that keeps the model for another time")
    p.add_argument("--make", action="store_true", help="only write the model, in both formats")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(a.model or scratch)
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "model" / "config.json").exists():
            inference.make_model(a, work / "model")
        if (a.llama_server or a.make) and not (work / "model.gguf").exists():
            inference.run(a.tern, "export", work / "model", "--format", "gguf", "--output", work / "model.gguf")
        if a.make:
            return
        if all((a.rates / name).exists() for name in ("read_rate", "product_rate")):
            print(json.dumps(roof(a, work)), flush=True)
        if a.rounds < 1:
            return
        who = {"tern": of_tern, **({"llama.cpp": of_llama} if a.llama_server else {})}
        rates = {name: [] for name in who}
        for number in range(a.rounds):
            for name in list(who) if number % 2 == 0 else list(who)[::-1]:
                r = who[name](a, work)
                rates[name].append(r["output_tokens_per_s"])
                print(json.dumps({"round": number, "server": name, "tokens_per_s": r["output_tokens_per_s"], "answered": r["answered"],
                                  "ttft_s": r["ttft_s"]["mean"], "tpot_s": r["tpot_s"]["mean"]}), flush=True)
        out = {name: statistics.median(x) for name, x in rates.items()}
        if a.llama_server:
            out["ratio"] = statistics.median(t / l for t, l in zip(rates["tern"], rates["llama.cpp"]))
        print(json.dumps(out))


if __name__ == "__main__":
    main()
